package plan

import "time"

// TransformNodes rebuilds a plan bottom-up: f is called with each node after its inputs. A
// sub-plan that is shared (one pointer in two places) stays shared.
func TransformNodes(n Node, f func(Node) Node) Node {
	return transformNodes(n, f, map[Node]Node{})
}

func transformNodes(n Node, f func(Node) Node, done map[Node]Node) Node {
	if r, ok := done[n]; ok {
		return r
	}
	r := n
	if ins := n.Inputs(); len(ins) > 0 {
		next := make([]Node, len(ins))
		changed := false
		for i, in := range ins {
			next[i] = transformNodes(in, f, done)
			changed = changed || next[i] != in
		}
		if changed {
			r = n.WithInputs(next)
		}
	}
	r = f(r)
	done[n] = r
	return r
}

// Leaves returns the plan's acquisitions, left to right, each once.
func Leaves(n Node) []*Acquire {
	var out []*Acquire
	seen := map[Node]bool{}
	var walk func(Node)
	walk = func(n Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if a, ok := n.(*Acquire); ok {
			out = append(out, a)
		}
		for _, in := range n.Inputs() {
			walk(in)
		}
	}
	walk(n)
	return out
}

// EmitEvery returns the interval of the plan's EMIT EVERY, or 0.
func EmitEvery(n Node) time.Duration {
	var e Emit
	switch n := n.(type) {
	case *Aggregate:
		e = n.Emit
	case *Sort:
		e = n.Emit
	}
	if e.Mode == Every {
		return e.Every
	}
	for _, in := range n.Inputs() {
		if d := EmitEvery(in); d > 0 {
			return d
		}
	}
	return 0
}

// HasFinal reports whether the plan emits its result only at the end, so that a
// preview is useful.
func HasFinal(n Node) bool {
	switch n := n.(type) {
	case *Aggregate:
		if !n.Windowed && n.Emit.Mode == Final {
			return true
		}
	case *Sort:
		if n.Emit.Mode == Final && len(Leaves(n)) > 0 && !Windowed(n) {
			return true
		}
	}
	for _, in := range n.Inputs() {
		if HasFinal(in) {
			return true
		}
	}
	return false
}

func Windowed(n Node) bool {
	if _, ok := n.(*Window); ok {
		return true
	}
	for _, in := range n.Inputs() {
		if Windowed(in) {
			return true
		}
	}
	return false
}
