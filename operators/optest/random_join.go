package optest

import (
	"time"

	"pgregory.net/rapid"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// RandomJoin draws a join of the streams of [RandomInput], of one with itself, or of three,
// on a condition that cannot fail.
func RandomJoin(t *rapid.T) plan.Node {
	g := planGen{t: t}
	names := []string{"b.csv", "b.csv", "a.csv"}
	n := g.join(g.side("a.csv"), g.side(rapid.SampledFrom(names).Draw(t, "right")))
	if g.n(4, "third") == 0 {
		n = g.join(n, g.side("b.csv"))
	}
	var root plan.Node = n
	if g.n(3, "filter") == 0 {
		root = &plan.Filter{Input: n, Cond: g.comparison(n.Out, 0, len(n.Out.Fields))}
	}
	return root
}

func (g planGen) side(name string) plan.Node {
	var n plan.Node = g.leaf(name)
	if g.n(3, "filtered side") == 0 {
		n = &plan.Filter{Input: n, Cond: g.comparison(n.Schema(), 0, len(n.Schema().Fields))}
	}
	return n
}

func (g planGen) join(l, r plan.Node) *plan.Join {
	j := plan.Join{Left: l, Right: r, Kind: plan.JoinKind(g.n(3, "kind")),
		Within: time.Duration(g.n(5, "within")) * 700 * time.Millisecond}
	if j.Kind != plan.AsOfJoin {
		j.Followed = g.n(3, "followed") - 1
	}
	if j.Kind == plan.LeftWindowJoin {
		j.Anti = g.n(2, "anti") == 0
	}
	n := plan.NewJoin(j)
	split := len(l.Schema().Fields)
	for range g.n(4, "conjuncts") {
		x := g.comparison(n.Out, 0, len(n.Out.Fields))
		if g.n(3, "equal") > 0 {
			name := rapid.SampledFrom([]string{"k", "s", "p", "d", "f", "u", "w"}).Draw(g.t, "key")
			other := name
			if name == "w" && g.n(2, "mixed") == 0 { // UBIGINT and BIGINT
				other = "i"
			}
			x = &plan.Call{Fn: "=", T: types.Boolean, Args: []plan.Expr{
				column(n.Out, n.Out.Index(name)), column(n.Out, split+r.Schema().Index(other))}}
			if g.n(4, "swapped") == 0 {
				c := x.(*plan.Call)
				c.Args[0], c.Args[1] = c.Args[1], c.Args[0]
			}
		}
		if j.On != nil {
			x = &plan.Call{Fn: "and", Args: []plan.Expr{j.On, x}, T: types.Boolean}
		}
		j.On = x
	}
	return plan.NewJoin(j)
}

// comparison returns a comparison of two columns of one type between from and to.
func (g planGen) comparison(s types.Schema, from, to int) plan.Expr {
	x := from + g.n(to-from, "column")
	var same []int
	for i := from; i < to; i++ {
		if s.Fields[i].Type == s.Fields[x].Type {
			same = append(same, i)
		}
	}
	y := rapid.SampledFrom(same).Draw(g.t, "other")
	op := rapid.SampledFrom([]string{"<", "<=", "<>", "="}).Draw(g.t, "operator")
	c := plan.Expr(&plan.Call{Fn: op, Args: []plan.Expr{column(s, x), column(s, y)}, T: types.Boolean})
	if g.n(3, "or") == 0 {
		c = &plan.Call{Fn: "or", T: types.Boolean, Args: []plan.Expr{c, &plan.Call{Fn: "is null", Args: []plan.Expr{column(s, x)}, T: types.Boolean}}}
	}
	return c
}
