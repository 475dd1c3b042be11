package handlers

import (
	"cmp"
	"math"
	"slices"
)

// Settings are the numbers that the analysis depends on.
type Settings struct {
	MinSamples      uint64  // of a node, to be judged by its own
	MinChildSamples uint64  // of a node's callees, to be judged by theirs
	MinShare        float64 // of all samples, in either case
	WaitRatio       float64 // of a node's samples, above which it waits
	WaitShare       float64 // of all samples that those are, at least
	IORatio         float64 // the same for input and output
	IOShare         float64
	RunRatio        float64
}

// Defaults are the paper's numbers (section 5).
var Defaults = Settings{MinSamples: 10, MinChildSamples: 40, MinShare: 0.0001, WaitRatio: 0.99, WaitShare: 0.01, IORatio: 0.999, IOShare: 0.05, RunRatio: 0.90}

// Type is what a node mostly does (section 5).
type Type uint8

// Any: not known for want of samples. Mixed: nothing mostly.
const (
	Any Type = iota
	Running
	Waiting
	Transferring
	Mixed
)

// String is the paper's word.
func (t Type) String() string { return [...]string{"ANY", "RUN", "WAIT", "IO", "MIXED"}[t] }

// Kind is how a handler was found.
type Kind uint8

// A Callback is called by a library, an Event by a loop that waits or reads.
const (
	Callback Kind = iota
	Event
)

// String is the paper's word.
func (k Kind) String() string { return [...]string{"CALLBACK", "EVENT"}[k] }

// Handler is a function that handles events.
type Handler struct {
	Name
	Kind Kind
	// Node is what gets its events: NODE_WAIT or NODE_IO; "" of a callback.
	Node    string
	Samples uint64
	// Confidence is the lower end of the interval in which, with 95 %, the share
	// of its samples lies that do not wait (Wilson). Of a callback it is that of
	// the share of all samples.
	Confidence float64
}

// The two kinds of node that get events (figure 3).
const (
	NodeWait = "NODE_WAIT"
	NodeIO   = "NODE_IO"
)

// Analyse finds the event handlers: callbacks first, each by name, once.
func (t *Trie) Analyse(s Settings) []Handler {
	a := analysis{settings: s, total: float64(t.Samples), found: map[key]*Handler{}, subtree: map[*Node]Counts{}}
	a.sum(&t.root)
	for name, n := range t.callbacks {
		if n >= s.MinSamples && float64(n) >= s.MinShare*a.total {
			a.add(Handler{Name: name, Kind: Callback, Samples: n, Confidence: wilson(n, t.Samples)})
		}
	}
	for _, n := range t.root.children {
		a.visit(n)
	}
	out := make([]Handler, 0, len(a.found))
	for _, h := range a.found {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(x, y Handler) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Function, y.Function), cmp.Compare(x.Module, y.Module), cmp.Compare(x.Node, y.Node))
	})
	return out
}

type key struct {
	Name
	kind Kind
	node string
}

type analysis struct {
	settings Settings
	total    float64
	found    map[key]*Handler
	subtree  map[*Node]Counts // of a node's callees, at any depth
}

// sum fills subtree, and returns the counts of n and its callees together.
func (a *analysis) sum(n *Node) Counts {
	var below Counts
	for _, c := range n.children {
		below.add(a.sum(c))
	}
	a.subtree[n] = below
	below.add(n.Own)
	return below
}

// counts are those that a node is judged by: its own if they are enough, else
// those of its callees. ok is false where neither are.
func (a *analysis) counts(n *Node) (c Counts, ok bool) {
	enough := func(c Counts, least uint64) bool {
		return c.Total() >= least && float64(c.Total()) >= a.settings.MinShare*a.total
	}
	if enough(n.Own, a.settings.MinSamples) {
		return n.Own, true
	}
	below := a.subtree[n]
	return below, enough(below, a.settings.MinChildSamples)
}

// typeOf is the type of a node.
func (a *analysis) typeOf(n *Node) Type {
	c, ok := a.counts(n)
	if !ok {
		return Any
	}
	total := float64(c.Total())
	wait, io := float64(c[Wait]), float64(c[IO])
	switch s := &a.settings; {
	case wait/total > s.WaitRatio && wait/a.total > s.WaitShare:
		return Waiting
	case io/total > s.IORatio && io/a.total > s.IOShare:
		return Transferring
	case (float64(c[Run])+io)/total > s.RunRatio:
		return Running
	}
	return Mixed
}

// visit looks for the patterns of figure 2 at a node, and at its callees where
// they may have more.
func (a *analysis) visit(n *Node) {
	of := map[Type][]*Node{}
	for _, c := range n.children {
		if typ := a.typeOf(c); typ != Any && !isClock(c.Name.Function) {
			of[typ] = append(of[typ], c)
		}
	}
	waits, ios, runs, mixed := of[Waiting], of[Transferring], of[Running], of[Mixed]
	node := a.typeOf(n)
	switch {
	case node == Waiting && len(runs) > 0 && len(waits) == 0 && len(mixed) == 0:
		a.events(NodeWait, runs, ios)
		return
	case len(waits) == 1 && len(runs) > 0 && len(mixed) == 0:
		a.events(NodeWait, runs, ios)
	case node == Transferring && len(runs) > 0 && len(waits) == 0 && len(ios) == 0 && len(mixed) == 0:
		a.events(NodeIO, runs)
		return
	case len(ios) == 1 && len(runs) > 0 && len(waits) == 0 && len(mixed) == 0:
		a.events(NodeIO, runs)
	}
	for _, c := range n.children {
		a.visit(c)
	}
}

func (a *analysis) events(node string, groups ...[]*Node) {
	for _, g := range groups {
		for _, n := range g {
			c := n.Own
			c.add(a.subtree[n])
			a.add(Handler{Name: n.Name, Kind: Event, Node: node, Samples: c.Total(), Confidence: wilson(c[Run]+c[IO], c.Total())})
		}
	}
}

// add notes a handler. One that is found at several places has the samples of all.
func (a *analysis) add(h Handler) {
	k := key{h.Name, h.Kind, h.Node}
	have := a.found[k]
	if have == nil {
		a.found[k] = &h
		return
	}
	have.Confidence = max(have.Confidence, h.Confidence)
	have.Samples += h.Samples
}

// wilson is the lower end of the 95 % confidence interval of a share, of which n
// of total samples were seen (Wilson's score interval).
func wilson(n, total uint64) float64 {
	if total == 0 {
		return 0
	}
	const z = 1.959964
	count := float64(total)
	p := float64(n) / count
	centre := p + z*z/(2*count)
	spread := z * math.Sqrt(p*(1-p)/count+z*z/(4*count*count))
	return max(0, (centre-spread)/(1+z*z/count))
}
