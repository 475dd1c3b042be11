// Package order lists in which orders the inputs of a window join may be acquired: both at
// once, or one only around the rows of the other.
//
// It decides which ways are exact, from the plan and from what the sources support. It must
// not know what a way costs (planner/cost), nor how a gate is opened.
package order

import (
	"fmt"
	"slices"
	"time"

	"endoscope/planner/plan"
)

// Gatings lists for every window join of a plan the two ways to acquire one input only
// around the rows of the other: left opens right, then right opens left. able returns what
// the sources support. inexact requests the cheapest way to shut an input even if it is not
// exact.
//
// A window join looks back: when a row of A arrives, rows of B from before it are needed,
// and also those from the time that it took to open B's gate. So a way is exact only
//
//   - if B is later than A (FOLLOWED BY), and A's own program in the kernel tests
//     A's condition, opens the gate and then reads the timestamp; calls already in
//     progress are excluded only if the query requires B.start_time > A.timestamp;
//   - or if B is sampled: a sampler can test at each interval a gate that was opened
//     in the kernel, or keep its rows until A's watermark has passed.
//
// With several joins, each compares a time with that of the first source, which may
// therefore open the gates of all others.
func Gatings(root plan.Node, able func(*plan.Acquire) plan.Ability, inexact bool) []plan.Gating {
	o := ordering{able: able, inexact: inexact, uses: map[plan.Node]int{}}
	o.survey(root)
	var out []plan.Gating
	for _, j := range o.joins {
		out = append(out, o.gating(j, true), o.gating(j, false))
	}
	return out
}

// ordering is the state of Gatings.
type ordering struct {
	able    func(*plan.Acquire) plan.Ability
	inexact bool
	uses    map[plan.Node]int
	joins   []*plan.Join // innermost first
}

func (o *ordering) survey(n plan.Node) {
	if o.uses[n]++; o.uses[n] > 1 {
		return
	}
	for _, in := range n.Inputs() {
		o.survey(in)
	}
	if j, ok := n.(*plan.Join); ok && (j.Kind == plan.WindowJoin || j.Kind == plan.LeftWindowJoin) {
		o.joins = append(o.joins, j)
	}
}

// gating returns the way in which one input opens the other.
func (o *ordering) gating(j *plan.Join, left bool) plan.Gating {
	from, to := j.Left, j.Right
	lo, hi := j.Band()
	if !left {
		from, to = to, from
		lo, hi = -hi, -lo
	}
	g := plan.Gating{Join: j, Left: left, Within: time.Duration(max(hi, 0)), Before: time.Duration(max(-lo, 0))}
	opener, shared := o.timed(from)
	if opener == nil {
		g.Refused = computed(left)
		return g
	}
	g.Opener, g.OpenerName = opener, name(from, opener)
	gated, sharedToo := o.timed(to)
	if gated == nil {
		g.Refused = computed(!left)
		return g
	}
	g.Gated, g.GatedName = gated, name(to, gated)
	b := o.able(gated)
	switch {
	case opener == gated || sharedToo:
		g.Refused = fmt.Sprintf("%s is read by more than this input", g.GatedName)
	case !left && j.Kind == plan.LeftWindowJoin:
		g.Refused = fmt.Sprintf("rows of %s without a partner are part of the result", g.GatedName)
	case b.Gate == plan.NoGate:
		g.Refused = b.Why
	case hi <= 0 && b.Gate != plan.Paused:
		g.Refused = fmt.Sprintf("all rows of %s that are needed come before those of %s", g.GatedName, g.OpenerName)
	}
	if g.Refused != "" {
		return g
	}
	a := o.able(opener)
	g.Kernel = a.Opens
	why := a.Closed
	if shared || !direct(from) {
		g.Kernel, why = false, fmt.Sprintf("the condition on %s is not tested in the kernel as a whole", g.OpenerName)
	}
	if b.Gate == plan.Paused {
		o.sampled(&g, b, lo, hi)
	} else {
		o.called(&g, lo, why)
	}
	return g
}

func computed(left bool) string {
	if left {
		return "the rows of the left input are computed, not acquired"
	}
	return "the rows of the right input are computed, not acquired"
}

// sampled selects how a sampler is shut.
func (o *ordering) sampled(g *plan.Gating, b plan.Ability, lo, hi int64) {
	switch {
	case g.Kernel && lo > 0:
		g.Exact, g.Way = true, plan.Paused
		if b.Lag > 0 {
			g.Way = plan.Resting
		}
	case o.inexact && hi > int64(b.Lag):
		g.Way, g.Kernel = plan.Asleep, false
		g.Inexact = fmt.Sprintf("%s has no rows from before its gate opens", g.GatedName)
	default:
		g.Exact, g.Way, g.Kernel = true, plan.Holding, false
	}
}

// called determines whether the gate of a stream of calls is exact.
func (o *ordering) called(g *plan.Gating, lo int64, why string) {
	g.Way = plan.AtEntry
	opener, gated := g.OpenerName, g.GatedName
	switch {
	case lo <= 0:
		g.Inexact = fmt.Sprintf("calls of %s from before a row of %s are needed: the join has no condition %s FOLLOWED BY %s", gated, opener, opener, gated)
	case !g.Kernel:
		g.Inexact = why
	case g.Gated.Stream == "function_start":
		g.Exact = true
	case startsLater(g):
		g.Exact = true
	case g.Gated.Stream == "function_duration":
		g.Inexact = fmt.Sprintf("calls of %s that are in progress at a row of %s are needed: the join has no condition %s.start_time > %s.timestamp", gated, opener, gated, opener)
	default:
		g.Inexact = fmt.Sprintf("calls of %s that are in progress at a row of %s are needed", gated, opener)
	}
}

// timed returns the acquisition that provides the time of n's rows, if every row of n has a
// row of it, and whether its rows are also used elsewhere.
func (o *ordering) timed(n plan.Node) (leaf *plan.Acquire, shared bool) {
	for {
		shared = shared || o.uses[n] > 1
		switch x := n.(type) {
		case *plan.Acquire:
			return x, shared
		case *plan.Filter:
			n = x.Input
		case *plan.Project:
			if t := x.Out.Time; t < 0 || !isColumn(x.Exprs[t], x.Input.Schema().Time) {
				return nil, false
			}
			n = x.Input
		case *plan.Join: // its time is the left input's
			n = x.Left
		default:
			return nil, false
		}
	}
}

func isColumn(e plan.Expr, i int) bool {
	c, ok := e.(*plan.Col)
	return ok && c.Index == i
}

// direct reports whether nothing between n and the acquisition that provides its time drops
// rows that the join would see: then the acquisition tests the whole condition. A join in
// between drops rows without partners, but that is not a condition on its first source.
func direct(n plan.Node) bool {
	switch x := n.(type) {
	case *plan.Filter:
		return false
	case *plan.Project:
		return direct(x.Input)
	case *plan.Join:
		return direct(x.Left)
	}
	return true
}

// startsLater reports whether the condition contains gated.start_time > opener.timestamp.
func startsLater(g *plan.Gating) bool {
	split := len(g.Join.Left.Schema().Fields)
	is := func(e plan.Expr, leaf *plan.Acquire, column string) bool {
		c, ok := e.(*plan.Col)
		if !ok {
			return false
		}
		n, i := g.Join.Left, c.Index
		if i >= split {
			n, i = g.Join.Right, i-split
		}
		from, field := origin(n, i)
		return from == leaf && leaf.Out.Fields[field].Name == column
	}
	return slices.ContainsFunc(plan.Conjuncts(g.Join.On), func(e plan.Expr) bool {
		c, ok := e.(*plan.Call)
		if !ok || c.Fn != ">" && c.Fn != "<" {
			return false
		}
		later, earlier := c.Args[0], c.Args[1]
		if c.Fn == "<" {
			later, earlier = earlier, later
		}
		return is(later, g.Gated, "start_time") && is(earlier, g.Opener, "timestamp")
	})
}

// origin returns the acquisition and its column that column i of n is, if it is unchanged.
func origin(n plan.Node, i int) (*plan.Acquire, int) {
	for {
		switch x := n.(type) {
		case *plan.Acquire:
			return x, i
		case *plan.Filter:
			n = x.Input
		case *plan.Project:
			c, ok := x.Exprs[i].(*plan.Col)
			if !ok {
				return nil, 0
			}
			n, i = x.Input, c.Index
		case *plan.Join:
			if split := len(x.Left.Schema().Fields); i < split {
				n = x.Left
			} else {
				n, i = x.Right, i-split
			}
		default:
			return nil, 0
		}
	}
}

// name returns the statement's name for an input of a join whose time is a's.
func name(in plan.Node, a *plan.Acquire) string {
	s := in.Schema()
	if q := s.Fields[s.Time].Qualifier; q != "" {
		return q
	}
	if a.Alias != "" {
		return a.Alias
	}
	return a.Stream
}
