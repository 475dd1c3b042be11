package handlers

import (
	"cmp"
	"maps"
	"slices"
)

// State is what a thread was doing (section 4, and a fourth).
type State uint8

// IO is what may bring an event: reading, accepting. Output is the rest of the
// paper's IO: a program writes what it has done, or wakes a thread that is to do
// more. Blocked threads wait for a lock, which is no event: they are counted, and
// left out of all ratios.
const (
	Run State = iota
	Wait
	IO
	Blocked
	Output
	numStates
)

// Counts is how often threads were in each state.
type Counts [numStates]uint64

// Total is how many there are; those of blocked threads do not count.
func (c Counts) Total() uint64 { return c[Run] + c[Wait] + c[IO] + c[Output] }

func (c *Counts) add(d Counts) {
	for s := range c {
		c[s] += d[s]
	}
}

// Name identifies a function in a trie.
type Name struct{ Function, Module string }

// Node is a function, called along the path to it. Own counts the samples in
// which it was the innermost function of the user's.
type Node struct {
	Name     Name
	Own      Counts
	system   bool
	children map[Name]*Node
}

// Children are the functions that it called, by name.
func (n *Node) Children() []*Node {
	return slices.SortedFunc(maps.Values(n.children), func(a, b *Node) int { return compareNames(a.Name, b.Name) })
}

func compareNames(a, b Name) int {
	return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.Module, b.Module))
}

func (n *Node) child(t *Trie, name Name) *Node {
	c := n.children[name]
	if c == nil {
		c = &Node{Name: name}
		if n.children == nil {
			n.children = map[Name]*Node{}
		}
		n.children[name] = c
		t.nodes++
	}
	return c
}

// DefaultLimit is how many nodes a trie has at most.
const DefaultLimit = 100_000

// Trie accumulates stacks. The zero value is ready.
type Trie struct {
	// Limit of nodes; 0: DefaultLimit. Beyond it the coldest leaves fold into
	// their parents.
	Limit int
	// Samples is how many stacks there were, those without a function of the
	// user's included.
	Samples uint64
	// Folded counts the samples that were moved to a node's parent.
	Folded uint64

	root Node
	// pools has the stacks of threads that the system's code runs, such as those
	// of thread pools: that code, and the user's function that it calls, with the
	// samples of all that this calls in turn.
	pools     Node
	callbacks map[Name]uint64
	nodes     int
	whole     bool // all frames are kept, the system's too, in root
	path      []*Frame
	places    map[*Frame]place // of stacks, by their leaves
}

// place is where a stack is counted.
type place struct {
	root, pool *Node
	callbacks  []Name
	wakes      bool // what runs there wakes another thread
}

// Add accumulates a stack, leaf first. What the system's functions at its leaf
// end do is what the innermost function of the user's does. The system's
// functions in between are left out: what a library calls back then appears
// below the function that entered the library. The trie keeps the slice, which
// nobody changes: where it is given again it need not be read.
func (t *Trie) Add(stack []Frame, state State) {
	t.Samples++
	if len(stack) == 0 {
		return
	}
	p, ok := t.places[&stack[0]]
	if !ok {
		if t.places == nil || len(t.places) >= maxStacks {
			t.places = map[*Frame]place{}
		}
		p = t.find(stack)
		t.places[&stack[0]] = p
	}
	if state == Run && p.wakes {
		state = Output
	}
	if p.root != nil {
		p.root.Own[state]++
	}
	if p.pool != nil {
		p.pool.Own[state]++
	}
	for _, name := range p.callbacks {
		if t.callbacks == nil {
			t.callbacks = map[Name]uint64{}
		}
		t.callbacks[name]++
	}
	if limit := cmp.Or(t.Limit, DefaultLimit); t.nodes > limit {
		t.shrink(limit - limit/8)
	}
}

// find is where a stack is counted.
func (t *Trie) find(stack []Frame) (p place) {
	path := t.path[:0]
	for i := range stack {
		if t.whole || !stack[i].is(artefact) {
			path = append(path, &stack[i])
		}
	}
	t.path = path
	if t.whole {
		return place{root: t.walk(&t.root, path, func(*Frame) bool { return true })}
	}
	p.wakes = len(path) > 0 && path[0].System && path[0].is(waker)
	path = withoutStart(path)
	if len(path) == 0 {
		return place{}
	}
	for i := 0; i+1 < len(path); i++ { // a function of the user's that the system called
		if f := path[i]; !f.System && path[i+1].System && !f.is(incidental) && !path[i+1].is(transparent) {
			p.callbacks = append(p.callbacks, Name{f.Function, f.Module})
		}
	}
	if path[len(path)-1].System {
		outer := len(path) - 1
		for outer > 0 && path[outer].System {
			outer--
		}
		p.pool = t.walk(&t.pools, path[outer:], func(*Frame) bool { return true })
	}
	p.root = t.walk(&t.root, path, func(f *Frame) bool { return !f.System })
	return p
}

// withoutStart is a path without the system's functions that begin threads. Libraries
// begin them by functions of their own, which may have no name.
func withoutStart(path []*Frame) []*Frame {
	begun := false
	for n := len(path); n > 0; n-- {
		f := path[n-1]
		if !f.System || !f.is(threadStart) && !(begun && n > 1 && path[n-2].System && isNameless(f.Function)) {
			return path[:n]
		}
		begun = f.is(threadStart)
	}
	return nil
}

// walk goes from n along the frames of a path that are taken, making nodes; nil
// if there are none.
func (t *Trie) walk(n *Node, path []*Frame, taken func(*Frame) bool) *Node {
	start := n
	for i := len(path) - 1; i >= 0; i-- {
		if f := path[i]; taken(f) {
			n = n.child(t, Name{f.Function, f.Module})
			n.system = f.System
		}
	}
	if n == start {
		return nil
	}
	return n
}

// Merge adds what another trie has accumulated.
func (t *Trie) Merge(o *Trie) {
	t.Samples += o.Samples
	t.Folded += o.Folded
	for name, n := range o.callbacks {
		if t.callbacks == nil {
			t.callbacks = map[Name]uint64{}
		}
		t.callbacks[name] += n
	}
	t.merge(&t.root, &o.root)
	t.merge(&t.pools, &o.pools)
	if limit := cmp.Or(t.Limit, DefaultLimit); t.nodes > limit {
		t.shrink(limit - limit/8)
	}
}

func (t *Trie) merge(to, from *Node) {
	to.Own.add(from.Own)
	for name, c := range from.children {
		to := to.child(t, name)
		to.system = c.system
		t.merge(to, c)
	}
}

// shrink folds leaves into their parents, the coldest first, until at most limit
// nodes are left.
func (t *Trie) shrink(limit int) {
	clear(t.places)
	for t.nodes > limit {
		type leaf struct{ node, parent *Node }
		var leaves []leaf
		var visit func(n *Node)
		visit = func(n *Node) {
			for _, c := range n.children {
				if len(c.children) == 0 {
					leaves = append(leaves, leaf{c, n})
				} else {
					visit(c)
				}
			}
		}
		visit(&t.root)
		visit(&t.pools)
		slices.SortFunc(leaves, func(a, b leaf) int {
			return cmp.Or(cmp.Compare(a.node.Own.Total(), b.node.Own.Total()),
				cmp.Compare(a.node.Name.Function, b.node.Name.Function), cmp.Compare(a.parent.Name.Function, b.parent.Name.Function))
		})
		for _, l := range leaves[:min(len(leaves), t.nodes-limit)] {
			delete(l.parent.children, l.node.Name)
			t.nodes--
			t.Folded += l.node.Own.Total()
			if l.parent != &t.root && l.parent != &t.pools {
				l.parent.Own.add(l.node.Own)
			}
		}
	}
}

// Roots are the functions that threads began with.
func (t *Trie) Roots() []*Node { return t.root.Children() }

// Nodes is how many nodes there are.
func (t *Trie) Nodes() int { return t.nodes }
