package consistency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Calls is the call tree: invocations by name, each below its caller. Calls with one name
// below one node share a node; the tree grows with the number of paths, not calls.
type Calls struct {
	root callNode
	live map[string]*callNode // invocations that have not ended
	size int64
}

type callNode struct {
	name  string
	calls int
	live  int
	down  map[string]*callNode
}

// NewCalls returns an empty tree.
func NewCalls() *Calls { return &Calls{live: map[string]*callNode{}} }

// Apply implements [Present].
func (c *Calls) Apply(e Event) {
	if e.Category != Invocation || e.Entity == Unknown {
		return
	}
	switch {
	case e.Kind == Enter:
		up := c.live[e.Parent]
		if up == nil {
			up = &c.root
		}
		n := up.down[e.Name]
		if n == nil {
			if up.down == nil {
				up.down = map[string]*callNode{}
			}
			n = &callNode{name: e.Name}
			up.down[e.Name] = n
			c.size += entryBytes
		}
		n.calls++
		if old := c.live[e.Entity]; old != nil {
			old.live--
		}
		n.live++
		c.live[e.Entity] = n
	case e.Kind.Ends():
		if n := c.live[e.Entity]; n != nil {
			n.live--
			delete(c.live, e.Entity)
		}
	}
}

func (n *callNode) sorted() []*callNode {
	return slices.SortedFunc(maps.Values(n.down), func(a, b *callNode) int {
		return cmp.Or(cmp.Compare(b.calls, a.calls), cmp.Compare(a.name, b.name))
	})
}

// Lines implements [Present]: the number of calls of each node, and of calls that have not
// ended.
func (c *Calls) Lines() (out []Line) {
	var walk func(n *callNode, depth int)
	walk = func(n *callNode, depth int) {
		for _, d := range n.sorted() {
			l := fmt.Sprintf("%s %d", cmp.Or(d.name, "?"), d.calls)
			if d.live > 0 {
				l += fmt.Sprintf(" (%d now)", d.live)
			}
			out = append(out, Line{depth, l})
			walk(d, depth+1)
		}
	}
	walk(&c.root, 0)
	return out
}

func (c *Calls) String() string { return text(c.Lines()) }

// Picture implements [Present].
func (c *Calls) Picture() (nodes []Node, arrows []Arrow) {
	var walk func(n *callNode, id string)
	walk = func(n *callNode, id string) {
		for _, d := range n.sorted() {
			own := fmt.Sprint("n", len(nodes)+1)
			nodes = append(nodes, Node{own, fmt.Sprintf("%s %d", d.name, d.calls)})
			if id != "" {
				arrows = append(arrows, Arrow{From: id, To: own})
			}
			walk(d, own)
		}
	}
	walk(&c.root, "")
	return nodes, arrows
}

// Size implements [Present].
func (c *Calls) Size() int64 { return c.size + int64(len(c.live))*entryBytes }

// References is the graph of references between live objects, from REFERENCE events.
type References struct {
	class map[string]string          // live objects
	to    map[string]map[string]bool // by referring object
	from  map[string]map[string]bool // the inverse of to
}

// NewReferences returns an empty graph.
func NewReferences() *References {
	return &References{class: map[string]string{}, to: map[string]map[string]bool{}, from: map[string]map[string]bool{}}
}

// Apply implements [Present].
func (r *References) Apply(e Event) {
	switch {
	case e.Entity == Unknown || e.Other == Unknown:
	case e.Category == Object && e.Kind == Create:
		r.remove(e.Entity)
		r.class[e.Entity] = e.TypeName
	case e.Category == Object && e.Kind.Ends():
		r.remove(e.Entity)
	case e.Kind == Reference && e.Other != "":
		link(r.to, e.Entity, e.Other)
		link(r.from, e.Other, e.Entity)
	case e.Kind == Move:
		to, from, class := r.to[e.Entity], r.from[e.Entity], r.class[e.Entity]
		r.remove(e.Entity)
		r.remove(e.Other)
		r.class[e.Other] = class
		for x := range to {
			link(r.to, e.Other, x)
			link(r.from, x, e.Other)
		}
		for x := range from {
			link(r.to, x, e.Other)
			link(r.from, e.Other, x)
		}
	}
}

func link(of map[string]map[string]bool, a, b string) {
	if of[a] == nil {
		of[a] = map[string]bool{}
	}
	of[a][b] = true
}

func unlink(of map[string]map[string]bool, a, b string) {
	delete(of[a], b)
	if len(of[a]) == 0 {
		delete(of, a)
	}
}

func (r *References) remove(id string) {
	for x := range r.to[id] {
		unlink(r.from, x, id)
	}
	for x := range r.from[id] {
		unlink(r.to, x, id)
	}
	delete(r.to, id)
	delete(r.from, id)
	delete(r.class, id)
}

func (r *References) name(id string) string {
	if c := r.class[id]; c != "" {
		return c + " " + id
	}
	return id
}

// Lines implements [Present], one line per reference.
func (r *References) Lines() (out []Line) {
	for _, id := range slices.Sorted(maps.Keys(r.to)) {
		for _, to := range slices.Sorted(maps.Keys(r.to[id])) {
			out = append(out, Line{Text: r.name(id) + " -> " + r.name(to)})
		}
	}
	return out
}

func (r *References) String() string { return text(r.Lines()) }

// Picture implements [Present].
func (r *References) Picture() (_ []Node, arrows []Arrow) {
	for _, id := range slices.Sorted(maps.Keys(r.to)) {
		for _, to := range slices.Sorted(maps.Keys(r.to[id])) {
			arrows = append(arrows, Arrow{From: r.name(id), To: r.name(to)})
		}
	}
	return nil, arrows
}

// Size implements [Present].
func (r *References) Size() int64 {
	return int64(len(r.class)+2*len(r.to)+2*len(r.from)) * entryBytes
}
