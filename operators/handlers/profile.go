package handlers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"endoscope/operators/encoders"
)

// Profile accumulates samples of stacks: in a trie of the user's functions, which is
// searched for handlers, and in a tree of all functions, from which flame graphs are drawn.
// The zero value is not ready; see [NewProfile].
type Profile struct {
	trie, whole Trie
}

// NewProfile returns a profile without samples.
func NewProfile() *Profile { return &Profile{whole: Trie{whole: true}} }

// Add accumulates a stack (see [Trie.Add]).
func (p *Profile) Add(stack []Frame, state State) {
	p.trie.Add(stack, state)
	p.whole.Add(stack, state)
}

// Samples returns the number of stacks added.
func (p *Profile) Samples() uint64 { return p.trie.Samples }

// Bytes returns the approximate memory in bytes.
func (p *Profile) Bytes() int64 { return int64(p.trie.nodes+p.whole.nodes) * nodeBytes }

// nodeBytes is the approximate size of a node with its entry in its parent's map.
const nodeBytes = 200

// Clone returns a deep copy of p.
func (p *Profile) Clone() *Profile {
	c := NewProfile()
	c.trie.Merge(&p.trie)
	c.whole.Merge(&p.whole)
	return c
}

// Of implements [encoders.Encoding]; the source is a sequence of samples.
func (p *Profile) Of() encoders.Source {
	return encoders.Source{Sequences: 1, Symbols: int64(p.trie.Samples), Encoded: int64(p.trie.Samples)}
}

// Merge implements [encoders.Mergeable].
func (p *Profile) Merge(others []encoders.Encoding) (encoders.Encoding, error) {
	c := p.Clone()
	for _, e := range others {
		o, ok := e.(*Profile)
		if !ok {
			return nil, fmt.Errorf("a trie does not merge with another encoding")
		}
		c.trie.Merge(&o.trie)
		c.whole.Merge(&o.whole)
	}
	return c, nil
}

var _ encoders.Mergeable = (*Profile)(nil)
var _ encoders.Drawing = (*Profile)(nil)

// shownShare is the smallest share of all samples with which a function appears in the
// text.
const shownShare = 0.002

// String returns the trie as indented text, one function per line: its share of all samples
// including callees, its type, and its own activity. Functions found to handle events are
// marked.
func (p *Profile) String() string {
	t := &p.trie
	a := analysis{settings: Defaults, found: map[key]*Handler{}, subtree: map[*Node]Counts{}}
	marks := map[Name]string{}
	for _, h := range t.Analyse(Defaults) {
		marks[h.Name] = strings.TrimSpace(h.Kind.String() + " " + h.Node)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d samples", t.Samples)
	var write func(n *Node, depth int)
	write = func(n *Node, depth int) {
		all := a.all(n)
		sum := all.Total() + all[Blocked]
		if float64(sum) < shownShare*float64(t.Samples) {
			return
		}
		fmt.Fprintf(&b, "\n%5.1f%% %*s%s", 100*float64(sum)/float64(max(t.Samples, 1)), 2*depth, "", n.Name.Function)
		if typ := a.typeOf(n); typ != Any {
			fmt.Fprintf(&b, " (%v)", typ)
		}
		fmt.Fprintf(&b, "%s", n.Own)
		if mark := marks[n.Name]; mark != "" {
			fmt.Fprintf(&b, " <- %s", mark)
		}
		for _, c := range a.bySize(n) {
			write(c, depth+1)
		}
	}
	for _, n := range t.root.children {
		a.sum(n)
	}
	for _, n := range a.bySize(&t.root) {
		all := a.all(n)
		a.total = float64(all.Total() + all[Blocked])
		write(n, 0)
	}
	return b.String()
}

// String returns the non-zero counts.
func (c Counts) String() string {
	var b strings.Builder
	for i, name := range stateNames {
		if c[i] > 0 {
			fmt.Fprintf(&b, " %s=%d", name, c[i])
		}
	}
	return b.String()
}

// stateNames are the names of states in text and JSON.
var stateNames = [numStates]string{"run", "wait", "in", "blocked", "out"}

// bySize returns a node's children, those with most samples first.
func (a *analysis) bySize(n *Node) []*Node {
	children := n.Children()
	slices.SortStableFunc(children, func(x, y *Node) int {
		cx, cy := a.all(x), a.all(y)
		return int(cy.Total()+cy[Blocked]) - int(cx.Total()+cx[Blocked])
	})
	return children
}

// MarshalJSON returns the trie and the handlers found in it.
func (p *Profile) MarshalJSON() ([]byte, error) {
	type node struct {
		Function string            `json:"function"`
		Module   string            `json:"module,omitempty"`
		Own      map[string]uint64 `json:"own,omitempty"`
		Children []node            `json:"children,omitempty"`
	}
	var of func(n *Node) node
	of = func(n *Node) node {
		out := node{Function: n.Name.Function, Module: n.Name.Module}
		for i, name := range stateNames {
			if n.Own[i] > 0 {
				if out.Own == nil {
					out.Own = map[string]uint64{}
				}
				out.Own[name] = n.Own[i]
			}
		}
		for _, c := range n.Children() {
			out.Children = append(out.Children, of(c))
		}
		return out
	}
	type handler struct {
		Function   string  `json:"function"`
		Kind       string  `json:"kind"`
		Node       string  `json:"node,omitempty"`
		Samples    uint64  `json:"samples"`
		Confidence float64 `json:"confidence"`
	}
	x := struct {
		Encoding string    `json:"encoding"`
		Samples  uint64    `json:"samples"`
		Handlers []handler `json:"handlers,omitempty"`
		Trie     []node    `json:"trie"`
	}{Encoding: "trie", Samples: p.trie.Samples, Trie: []node{}}
	for _, h := range p.trie.Analyse(Defaults) {
		x.Handlers = append(x.Handlers, handler{h.Function, h.Kind.String(), h.Node, h.Samples, h.Confidence})
	}
	for _, n := range p.trie.Roots() {
		x.Trie = append(x.Trie, of(n))
	}
	return json.Marshal(x)
}

// XML returns the trie in the format of the paper's figure 1, and the handlers in that of
// figure 3.
func (p *Profile) XML() (string, error) {
	var b strings.Builder
	if err := p.trie.WriteXML(&b); err != nil {
		return "", err
	}
	err := WriteHandlers(&b, p.trie.Analyse(Defaults))
	return b.String(), err
}

// Folded returns one line per stack, root first, with its count: the input format of flame
// graph tools.
func (p *Profile) Folded() string {
	var b strings.Builder
	var write func(n *Node, path string)
	write = func(n *Node, path string) {
		path += strings.ReplaceAll(n.Name.Function, ";", ":")
		if own := n.Own.Total() + n.Own[Blocked]; own > 0 {
			fmt.Fprintf(&b, "%s %d\n", path, own)
		}
		for _, c := range n.Children() {
			write(c, path+";")
		}
	}
	for _, n := range p.whole.Roots() {
		write(n, "")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
