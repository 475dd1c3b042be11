package handlers

import (
	"cmp"
	"math"
	"slices"
)

// Type is the predominant activity of a node (section 5).
type Type uint8

// Any: too few samples. Mixed: no predominant activity.
const (
	Any Type = iota
	Running
	Waiting
	Transferring
	Mixed
)

// String returns the paper's word.
func (t Type) String() string { return [...]string{"ANY", "RUN", "WAIT", "IO", "MIXED"}[t] }

// Kind is the way a handler was found.
type Kind uint8

// A Callback is called by a library, an Event by a loop that waits or reads.
const (
	Callback Kind = iota
	Event
)

// String returns the paper's word.
func (k Kind) String() string { return [...]string{"CALLBACK", "EVENT"}[k] }

// Handler is a function that handles events.
type Handler struct {
	Name
	Kind Kind
	// Node is the kind of node that receives its events: NODE_WAIT or NODE_IO; "" for a
	// callback.
	Node    string
	Samples uint64
	// Confidence is the lower end of the 95 % confidence interval (Wilson) of the share of
	// its samples that do not wait; for a callback, of its share of all samples.
	Confidence float64
}

// The two kinds of nodes that receive events (figure 3).
const (
	NodeWait = "NODE_WAIT"
	NodeIO   = "NODE_IO"
)

// Analyse finds the event handlers: callbacks first, by name, each once. A function that a
// library calls between waits or reads is an event, not a callback; a thread's loop called
// by a library is neither.
func (t *Trie) Analyse(s Settings) []Handler {
	a := analysis{trie: t, settings: s, found: map[key]*Handler{}, handling: map[Name]bool{}, loops: map[Name]bool{}, subtree: map[*Node]Counts{}}
	for _, root := range []*Node{&t.root, &t.pools} {
		a.pool = root == &t.pools
		for _, n := range root.children {
			total := a.sum(n)
			a.total = float64(total.Total() + total[Blocked])
			a.loops[n.Name] = a.visit(n) == NodeWait || a.loops[n.Name]
		}
	}
	for k := range a.found {
		a.handling[k.Name] = true
	}
	for name, n := range t.callbacks {
		if !a.handling[name] && !a.loops[name] && n >= s.MinSamples && float64(n) >= s.MinShare*float64(t.Samples) {
			a.add(Handler{Name: name, Kind: Callback, Samples: n, Confidence: wilson(n, t.Samples)})
		}
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
	trie     *Trie
	settings Settings
	total    float64 // samples of the current thread's first function
	pool     bool    // the thread's code is the system's
	found    map[key]*Handler
	handling map[Name]bool    // functions that handle events, or call one that does
	loops    map[Name]bool    // first functions of threads that wait for events
	subtree  map[*Node]Counts // of a node's callees, at any depth
}

// sum fills subtree and returns the counts of n including its callees.
func (a *analysis) sum(n *Node) Counts {
	var below Counts
	for _, c := range n.children {
		below.add(a.sum(c))
	}
	a.subtree[n] = below
	below.add(a.own(n))
	return below
}

// own returns the counts of a node used to classify it. In a pool, the system's code waits
// for work on behalf of the user's functions: a user function that waits does so for its
// own purposes, or is another thread's loop, and a busy loop beside it does not handle the
// pool's events.
func (a *analysis) own(n *Node) Counts {
	c := n.Own
	if a.pool && !n.system {
		c[Wait], c[IO] = 0, 0
	}
	return c
}

// all returns the counts of a node including its callees.
func (a *analysis) all(n *Node) Counts {
	c := n.Own
	c.add(a.subtree[n])
	return c
}

// counts returns the counts used to classify a node: its own if there are enough, else its
// callees'. ok is false if neither are enough.
func (a *analysis) counts(n *Node) (c Counts, ok bool) {
	enough := func(c Counts, least uint64) bool {
		return c.Total() >= least && float64(c.Total()) >= a.settings.MinShare*a.total
	}
	if own := a.own(n); enough(own, a.settings.MinSamples) {
		return own, true
	}
	below := a.subtree[n]
	return below, enough(below, a.settings.MinChildSamples)
}

// typeOf returns the type of a node. A node that both waits and reads has the type of the
// more frequent of the two.
func (a *analysis) typeOf(n *Node) Type {
	c, ok := a.counts(n)
	if !ok {
		return Any
	}
	total := float64(c.Total())
	wait, in, out := float64(c[Wait]), float64(c[IO]), float64(c[Output])
	switch s := &a.settings; {
	case wait >= in && (wait+in)/total > s.WaitRatio && wait/a.total > s.WaitShare:
		return Waiting
	case in > wait && (wait+in)/total > s.IORatio && in/a.total > s.IOShare:
		return Transferring
	case (float64(c[Run])+in+out)/total > s.RunRatio:
		return Running
	}
	return Mixed
}

// visit looks for the patterns of figure 2 at a node, and at its callees where they may
// have more. It returns the kind of node that n is; "" for none.
func (a *analysis) visit(n *Node) (node string) {
	node, found, all := a.pattern(n)
	for _, c := range found {
		a.event(node, c)
	}
	if !all {
		for _, c := range n.children {
			a.visit(c)
		}
	}
	return node
}

// pattern returns the pattern of figure 2 at a node: the kind of node that receives the
// events, "" for none, and the callees that handle them. If all is true its callees are not
// visited. A callee of mixed type may either handle or wait for an event, and counts as
// neither.
func (a *analysis) pattern(n *Node) (node string, found []*Node, all bool) {
	of := map[Type][]*Node{}
	for _, c := range n.children {
		if typ := a.typeOf(c); typ != Any && !isClock(c.Name.Function) {
			of[typ] = append(of[typ], c)
		}
	}
	waits, ios, runs := of[Waiting], of[Transferring], of[Running]
	if len(runs) == 0 {
		return "", nil, false
	}
	switch typ := a.typeOf(n); {
	case typ == Waiting && len(waits) == 0:
		return NodeWait, append(runs, ios...), true
	case len(waits) == 1:
		return NodeWait, append(runs, ios...), false
	case typ == Transferring && len(waits) == 0 && len(ios) == 0:
		return NodeIO, runs, true
	case len(ios) == 1 && len(waits) == 0:
		return NodeIO, runs, false
	}
	return "", nil, false
}

// writes reports whether a function only writes out what others produced: nearly all of its
// samples are in write system calls, made by it or by the system's code below it. A
// function whose callees write is not one.
func (a *analysis) writes(n *Node) bool {
	return float64(n.Own[Output]) > a.settings.OutputRatio*float64(a.all(n).Total())
}

// event records that n handles events. If n is the system's or has no name and only calls
// another function, the handler is the user's function below it. A function that only
// writes is not a handler.
func (a *analysis) event(node string, n *Node) {
	c := a.all(n)
	if n.system || isWrapper(n.Name.Function) {
		for _, callee := range n.children {
			a.event(node, callee)
		}
		return
	}
	called := n
	if begun := a.trie.root.children[n.Name]; a.pool && begun != nil {
		called = begun // in pools the stacks end with the user's functions
	}
	if a.writes(called) {
		return
	}
	if isNameless(n.Name.Function) {
		for _, callee := range called.children {
			if share := float64(a.all(callee).Total()) / float64(a.all(called).Total()); share > forwarded {
				a.handling[n.Name] = true
				a.event(node, callee)
				return
			}
		}
	}
	if c.Total() >= a.settings.MinSamples {
		a.add(Handler{Name: n.Name, Kind: Event, Node: node, Samples: c.Total(), Confidence: wilson(c.Total()-c[Wait], c.Total())})
	}
}

// forwarded is the share of a function's samples in a callee above which the function only
// forwards to it.
const forwarded = 0.95

// add records a handler. A handler found at several places has the samples of all.
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

// wilson returns the lower end of the 95 % confidence interval of a share of which n of
// total samples were seen (Wilson's score interval).
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
