package rules

import (
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

var aggregateIntoAcquisition = Rule{
	Name:    "aggregate-into-acquisition",
	Why:     "the source may aggregate events where they happen, and send one row per group instead of one per event",
	Counter: "EMIT CHANGES needs each event; a SESSION ends where events are missing; TOPK, DISTINCT and non-integer values have no state that can be sent; rows used by two parts of the query would need two different aggregations",
}

// applyPartial assigns acquisitions the first stage of the aggregate above. The aggregate
// stays unchanged: it merges. The rule runs after equal sub-plans were shared, because
// acquisitions that differ only in this would be duplicated.
func applyPartial(root plan.Node, env *Env) (plan.Node, bool) {
	if env.NoKernel {
		return root, false
	}
	uses := map[plan.Node]int{}
	var aggregates []*plan.Aggregate
	var count func(plan.Node)
	count = func(n plan.Node) {
		if uses[n]++; uses[n] > 1 {
			return
		}
		if a, ok := n.(*plan.Aggregate); ok {
			aggregates = append(aggregates, a)
		}
		for _, in := range n.Inputs() {
			count(in)
		}
	}
	count(root)
	partials := map[plan.Node]*plan.Partial{}
	for _, a := range aggregates {
		if leaf, p := firstStage(a, uses, attached); p != nil {
			partials[leaf] = p
		}
	}
	if len(partials) == 0 {
		return root, false
	}
	return plan.TransformNodes(root, func(n plan.Node) plan.Node {
		p := partials[n]
		if p == nil {
			return n
		}
		c := *n.(*plan.Acquire)
		c.Partial = p
		return &c
	}), true
}

// attached reports whether an acquisition is of functions, so that its source may run first
// stages in the kernel.
func attached(a *plan.Acquire) bool {
	c := catalog.Find(a.Stream)
	return c != nil && c.Functions
}

// FirstStage returns the first stage of the lowest aggregate of a chain of operators that
// the source of the chain could compute; nil if there is none.
func FirstStage(root plan.Node) *plan.Partial {
	var lowest *plan.Aggregate
	uses := map[plan.Node]int{}
	for n := root; ; n = n.Inputs()[0] {
		uses[n] = 1
		if a, ok := n.(*plan.Aggregate); ok {
			lowest = a
		}
		if len(n.Inputs()) != 1 {
			break
		}
	}
	if lowest == nil {
		return nil
	}
	_, p := firstStage(lowest, uses, func(*plan.Acquire) bool { return true })
	return p
}

// firstStage returns the part of an aggregate that its acquisition could compute, if able
// accepts it; nil if there is none.
func firstStage(n *plan.Aggregate, uses map[plan.Node]int, able func(*plan.Acquire) bool) (*plan.Acquire, *plan.Partial) {
	if !n.Windowed && n.Emit.Mode == plan.Changes {
		return nil, nil
	}
	keys, aggs, _ := n.Stage()
	s := stage{aggs: aggs}
	start, end := n.Borders()
	for i, k := range keys {
		switch i {
		case start:
			s.start = k
		case end:
			s.end = k
		default:
			s.keys = append(s.keys, k)
		}
	}
	for in := n.Input; uses[in] == 1; in = in.Inputs()[0] {
		switch x := in.(type) {
		case *plan.Project:
			s.substitute(x.Exprs)
		case *plan.Window:
			if !n.Windowed || !s.panes(x) {
				return nil, nil
			}
		case *plan.Acquire:
			if !able(x) || n.Windowed && !s.timedBy(x) || s.volatile() {
				return nil, nil
			}
			p, ok := plan.NewKernelPartial(s.keys, s.aggs, s.pane)
			if !ok {
				return nil, nil
			}
			if x.Budget != nil {
				p = plan.NewEstimatedPartial(p, plan.ByPlace(s.keys[:len(s.keys)-len(keys)+len(n.Keys)]))
			}
			return x, p
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// stage is an aggregate on its way down to the acquisition: its expressions over the input
// of the nodes passed so far.
type stage struct {
	keys       []plan.Expr
	aggs       []plan.Agg
	start, end plan.Expr     // a window's borders, until it is passed
	pane       time.Duration // of the window passed; 0: none
	time       plan.Expr     // the time of that window
}

func (s *stage) each(f func(plan.Expr) plan.Expr) {
	all := func(es []plan.Expr) []plan.Expr {
		out := make([]plan.Expr, len(es))
		for i, e := range es {
			out[i] = f(e)
		}
		return out
	}
	s.keys = all(s.keys)
	for _, e := range []*plan.Expr{&s.start, &s.end, &s.time} {
		if *e != nil {
			*e = f(*e)
		}
	}
	aggs := make([]plan.Agg, len(s.aggs))
	for i, a := range s.aggs {
		aggs[i] = a
		aggs[i].Args = all(a.Args)
		if a.Filter != nil {
			aggs[i].Filter = f(a.Filter)
		}
	}
	s.aggs = aggs
}

// substitute passes a projection.
func (s *stage) substitute(by []plan.Expr) {
	s.each(func(e plan.Expr) plan.Expr { return plan.Substitute(e, by) })
}

// panes passes a window, if it consists of panes such that all events of equal time are in
// the same panes, and only the borders read its columns.
func (s *stage) panes(w *plan.Window) bool {
	if s.pane > 0 || w.Hold {
		return false
	}
	switch w.Spec.Kind {
	case plan.Tumble:
		s.pane = w.Spec.Size
	case plan.Hop:
		s.pane = gcd(w.Spec.Size, w.Spec.Slide)
	default:
		return false
	}
	in := w.Input.Schema()
	if s.start != nil && !isColumn(s.start, len(in.Fields)) || !isColumn(s.end, len(in.Fields)+1) {
		return false
	}
	s.start, s.end = nil, nil
	below := true
	s.each(func(e plan.Expr) plan.Expr {
		for i := range reads(e) {
			below = below && i < len(in.Fields)
		}
		return e
	})
	s.time = &plan.Col{Index: w.Spec.Time, Name: in.Fields[w.Spec.Time].Name, T: in.Fields[w.Spec.Time].Type}
	return below
}

// timedBy reports whether the windows passed use the acquisition's event time.
func (s *stage) timedBy(a *plan.Acquire) bool { return isColumn(s.time, a.Out.Time) }

func isColumn(e plan.Expr, i int) bool {
	c, ok := e.(*plan.Col)
	return ok && c.Index == i
}

func (s *stage) volatile() (found bool) {
	s.each(func(e plan.Expr) plan.Expr {
		found = found || plan.Volatile(e)
		return e
	})
	return found
}

func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
