package handlers

import (
	"cmp"
	"maps"
	"slices"
)

// State is what a thread was doing (section 4, and a fourth state).
type State uint8

// IO may bring an event: reading, accepting. Output is the rest of the paper's IO: a
// program writes results, or wakes a thread to continue. Blocked threads wait for a lock,
// which is not an event: they are counted but excluded from all ratios.
const (
	Run State = iota
	Wait
	IO
	Blocked
	Output
	numStates
)

// Counts is the number of samples in each state.
type Counts [numStates]uint64

// Total returns the number of samples without those of blocked threads.
func (c Counts) Total() uint64 { return c[Run] + c[Wait] + c[IO] + c[Output] }

func (c *Counts) add(d Counts) {
	for s := range c {
		c[s] += d[s]
	}
}

// Name identifies a function in a trie.
type Name struct{ Function, Module string }

// Node is a function, called along the path to it. Own counts the samples in which it was
// the innermost function of the user's code.
type Node struct {
	Name     Name
	Own      Counts
	system   bool
	children map[Name]*Node
}

// Children returns the functions that it called, by name.
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

// DefaultLimit is the default limit of the number of nodes in a trie.
const DefaultLimit = 100_000

// Trie accumulates stacks. The zero value is ready.
type Trie struct {
	// Limit is the largest number of nodes; 0: DefaultLimit. Beyond it the coldest leaves
	// are folded into their parents.
	Limit int
	// Samples is the number of stacks, including those without a function of the user's.
	Samples uint64
	// Folded counts the samples that were moved to a node's parent.
	Folded uint64

	root Node
	// pools holds the stacks of threads that run the system's code, such as thread pools:
	// that code, and the user's function it calls with the samples of all its callees.
	pools     Node
	callbacks map[Name]uint64
	nodes     int
	whole     bool // all frames are kept, the system's too, in root
	path      []*Frame
	places    map[*Frame]place // of stacks, by their leaf frames
}

// place is the node where a stack is counted.
type place struct {
	root, pool *Node
	callbacks  []Name
	wakes      bool // the innermost function wakes another thread
}

// Add accumulates a stack, leaf first. The activity of system functions at the leaf counts
// for the innermost function of the user's. System functions in between are left out: a
// function that a library calls back appears below the function that entered the library.
// The trie keeps the slice, which must not change; the same slice is looked up without
// being read again.
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

// find returns the place where a stack is counted.
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
	for i := 0; i+1 < len(path); i++ { // a user's function that the system called
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

// withoutStart removes the system functions that start threads from a path. Libraries start
// threads by their own functions, which may have no name.
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

// walk follows the frames of a path accepted by taken from n, creating nodes; nil if no
// frame is accepted.
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

// Merge adds the samples of another trie.
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

// shrink folds leaves into their parents, the coldest first, until at most limit nodes are
// left.
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

// Roots returns the first functions of threads.
func (t *Trie) Roots() []*Node { return t.root.Children() }

// Nodes returns the number of nodes.
func (t *Trie) Nodes() int { return t.nodes }
