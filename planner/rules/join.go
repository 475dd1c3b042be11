package rules

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

var joinRules = []Rule{
	pushRule("push-filter-into-join",
		"dropped rows of one side are not kept for partners; a condition on both sides reduces the pairs, and an equality makes them findable by hash",
		"an outer join's condition on the right side would turn partners into NULLs, and the latest row for which it holds is not the latest row; but a condition that selects functions or processes of the right side is exempt: it selects the rows of which the latest is meant",
		func(j *plan.Join, cond plan.Expr) plan.Node {
			c := *j
			switch split := len(j.Left.Schema().Fields); sideOf(cond, split) {
			case leftSide:
				c.Left = &plan.Filter{Input: j.Left, Cond: cond}
			case rightSide:
				c.Right = &plan.Filter{Input: j.Right, Cond: plan.Shift(cond, -split)}
			default:
				c.On = plan.And(j.On, cond)
			}
			return &c
		}),
	{
		Name:    "push-join-condition",
		Why:     "a condition of ON on one side alone selects the rows that can have partners: the others need not be acquired",
		Counter: "an outer join also returns left rows without partners",
		Apply: on(func(j *plan.Join) (plan.Node, bool) {
			if j.On == nil {
				return nil, false
			}
			c := *j
			c.On = nil
			split := len(j.Left.Schema().Fields)
			fired := false
			for _, e := range plan.Conjuncts(j.On) {
				switch side := sideOf(e, split); {
				case plan.Volatile(e):
					c.On = plan.And(c.On, e)
				case side == leftSide && j.Kind != plan.LeftWindowJoin:
					c.Left, fired = &plan.Filter{Input: c.Left, Cond: e}, true
				case side == rightSide:
					c.Right, fired = &plan.Filter{Input: c.Right, Cond: plan.Shift(e, -split)}, true
				default:
					c.On = plan.And(c.On, e)
				}
			}
			return &c, fired
		}),
	},
	{
		Name:    "left-join-to-anti-join",
		Why:     "a left join filtered for NULL partners returns no pairs: a left row is dropped when it finds a partner, so only rows without one are kept (memory not released), not all rows of the window",
		Counter: "a column that may be NULL in a partner's row does not qualify: it must be the right side's time, or be compared in ON",
		Apply: onFiltered(func(f *plan.Filter, j *plan.Join) (plan.Node, bool) {
			if j.Kind != plan.LeftWindowJoin || j.Anti || !slices.ContainsFunc(plan.Conjuncts(f.Cond), func(e plan.Expr) bool { return wantsNoPartner(j, e) }) {
				return nil, false
			}
			c := *j
			c.Anti = true
			return &plan.Filter{Input: &c, Cond: f.Cond}, true
		}),
	},
}

// wantsNoPartner reports whether a condition over a left join is true only for rows without
// a partner: it requires NULL in a column of the right side that is not NULL in a pair.
func wantsNoPartner(j *plan.Join, cond plan.Expr) bool {
	null, ok := cond.(*plan.Call)
	if !ok || null.Fn != "is null" {
		return false
	}
	c, ok := null.Args[0].(*plan.Col)
	split := len(j.Left.Schema().Fields)
	if !ok || c.Index < split {
		return false
	}
	return c.Index == split+j.Right.Schema().Time || j.On != nil && slices.ContainsFunc(plan.Conjuncts(j.On), func(e plan.Expr) bool { return compares(e, c.Index) })
}

// compares reports whether e is a comparison with column i as one side, which is not true
// if the column is NULL.
func compares(e plan.Expr, i int) bool {
	c, ok := e.(*plan.Call)
	if !ok || !slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, c.Fn) {
		return false
	}
	return slices.ContainsFunc(c.Args, func(e plan.Expr) bool {
		col, ok := e.(*plan.Col)
		return ok && col.Index == i
	})
}

type side uint8

const (
	bothSides side = iota
	leftSide
	rightSide
)

// sideOf returns the inputs whose columns a condition over a join reads.
func sideOf(e plan.Expr, split int) side {
	var l, r bool
	for i := range reads(e) {
		l, r = l || i < split, r || i >= split
	}
	switch {
	case l && !r:
		return leftSide
	case r && !l:
		return rightSide
	}
	return bothSides
}

// joinTakes reports whether a condition above a join may be tested below or in it.
func joinTakes(j *plan.Join, cond plan.Expr) bool {
	if len(reads(cond)) == 0 {
		return false
	}
	split := len(j.Left.Schema().Fields)
	switch side := sideOf(cond, split); {
	case j.Kind == plan.WindowJoin || j.Kind == plan.ValueJoin || side == leftSide:
		return true
	case j.Kind == plan.AsOfJoin && side == rightSide:
		return !slices.ContainsFunc(plan.Conjuncts(cond), func(e plan.Expr) bool { return !chooses(j.Right, plan.Shift(e, -split)) })
	}
	all := plan.Conjuncts(cond) // can be added to ON, which is divided later
	return j.Kind == plan.AsOfJoin && len(all) > 1 && !slices.ContainsFunc(all, func(e plan.Expr) bool { return !joinTakes(j, e) })
}

// chooses reports whether a condition over what n acquires selects functions or processes.
func chooses(n plan.Node, cond plan.Expr) bool {
	for {
		f, ok := n.(*plan.Filter)
		if !ok {
			break
		}
		n = f.Input
	}
	a, ok := n.(*plan.Acquire)
	if !ok {
		return false
	}
	s := catalog.Find(a.Stream)
	if s == nil {
		return false
	}
	if s.Process && !s.Everywhere && a.Target.IsZero() {
		if _, ok := targetOf(a, cond); ok || choices(cond, a.Out.Index("exe")) != nil || choices(cond, a.Out.Index("process")) != nil {
			return true
		}
	}
	for i := range reads(cond) {
		if !s.Functions || !slices.Contains(plan.SelectColumns, a.Out.Fields[i].Name) {
			return false
		}
	}
	return true
}

// pruneJoin narrows both inputs to what the join and the nodes above it read.
func pruneJoin(n *plan.Join, need map[int]bool) (plan.Node, map[int]int) {
	used := clone(need)
	if n.On != nil {
		columnsOf(n.On, used)
	}
	split := len(n.Left.Schema().Fields)
	l, r := map[int]bool{}, map[int]bool{}
	for i := range used {
		if i < split {
			l[i] = true
		} else {
			r[i-split] = true
		}
	}
	l[n.Left.Schema().Time], r[n.Right.Schema().Time] = true, true
	c := *n
	var toLeft, toRight map[int]int
	c.Left, toLeft = prune(n.Left, l)
	c.Right, toRight = prune(n.Right, r)
	at := len(c.Left.Schema().Fields)
	to := cloneInts(toLeft)
	for i, k := range toRight {
		to[split+i] = at + k
	}
	if n.On != nil {
		c.On = renumber(n.On, to)
	}
	return plan.NewJoin(c), to
}
