package optest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Compare explains how got differs from want, the oracle's output of the same plan, or
// returns "". It ignores previews and results without rows. Rows must be in the same order
// if the plan defines one. Numbers must be equal, except those derived from sums of DOUBLE,
// means and sketches.
func Compare(root plan.Node, got, want *Output) string {
	g, w := final(got), final(want)
	if len(g) != len(w) {
		return fmt.Sprintf("%d results instead of %d", len(g), len(w)) + show(g, w)
	}
	slacks := make([]slack, len(root.Schema().Fields))
	for i := range slacks {
		slacks[i] = slackOf(root, i)
	}
	ordered := Ordered(root)
	for i := range w {
		if len(g[i]) != len(w[i]) {
			return fmt.Sprintf("result %d has %d rows instead of %d", i, len(g[i]), len(w[i])) + show(g[i:i+1], w[i:i+1])
		}
		left := slices.Clone(w[i])
		for k, vs := range g[i] {
			at := slices.IndexFunc(left, func(x []types.Value) bool { return near(vs, x, slacks) })
			if at < 0 || ordered && at != 0 {
				return fmt.Sprintf("row %d of result %d is wrong: %s", k, i, rowText(vs)) + show(g[i:i+1], w[i:i+1])
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	return compareLate(root, got.Lost["late"], want.Lost["late"])
}

// compareLate compares the late rows, unless a LIMIT ended the query. A row may be late for
// some of its HOP windows only; how it counts then is not defined.
func compareLate(root plan.Node, got, want uint64) string {
	hop := false
	for n := range nodes(root) {
		switch n := n.(type) {
		case *plan.Limit:
			if !n.PerFlush {
				return ""
			}
		case *plan.Window:
			hop = hop || n.Spec.Kind == plan.Hop
		}
	}
	if hop && want > 0 {
		return ""
	}
	if got != want {
		return fmt.Sprintf("%d rows were late instead of %d", got, want)
	}
	return ""
}

// nodes returns all nodes of a plan.
func nodes(root plan.Node) func(func(plan.Node) bool) {
	return func(yield func(plan.Node) bool) {
		all := []plan.Node{root}
		for len(all) > 0 {
			n := all[0]
			all = append(all[1:], n.Inputs()...)
			if !yield(n) {
				return
			}
		}
	}
}

// final returns the rows of each result that is neither a preview nor empty.
func final(o *Output) [][][]types.Value {
	var all [][][]types.Value
	for _, r := range o.Results {
		if !r.Preview && len(r.Rows) > 0 {
			all = append(all, r.Rows)
		}
	}
	return all
}

func show(got, want [][][]types.Value) string {
	return "\n--- got\n" + resultsText(got) + "--- want\n" + resultsText(want)
}

func resultsText(rs [][][]types.Value) string {
	var b strings.Builder
	for _, r := range rs {
		for _, vs := range r {
			b.WriteString(rowText(vs) + "\n")
		}
		b.WriteString("flush\n")
	}
	return b.String()
}

// Ordered reports whether a plan defines the order of rows: that of a sort, or that of its
// only source.
func Ordered(root plan.Node) bool {
	for {
		switch n := root.(type) {
		case *plan.Sort:
			return true
		case *plan.Acquire, *plan.Values:
			return true
		case *plan.Aggregate, *plan.Union, *plan.Window, *plan.Join:
			return false
		default:
			root = n.Inputs()[0]
		}
	}
}

// slack is the relative error that a column may have.
type slack float64

// Slacks. RATE over the query's life depends on the clock at its end.
const (
	exact      slack = 0
	floating   slack = 1e-9
	unknowable slack = math.MaxFloat64
)

func slackOf(n plan.Node, column int) slack {
	switch n := n.(type) {
	case *plan.Acquire, *plan.Values, *plan.Insert:
		return exact
	case *plan.Project:
		return slackOfExpr(n.Exprs[column], n.Input)
	case *plan.Aggregate:
		if column < len(n.Keys) {
			return slackOfExpr(n.Keys[column], n.Input)
		}
		switch a := n.Aggs[column-len(n.Keys)]; a.Fn {
		case "sum", "avg", "variance", "stddev":
			if a.Args[0].Type() == types.Double { // rounded once
				return slackOfExpr(a.Args[0], n.Input)
			}
			if a.T != types.Bigint && a.T != types.Ubigint {
				return floating
			}
		case "rate":
			if !n.Windowed {
				return unknowable
			}
		case "min", "max", "first", "last", "quantile", "median": // of small groups
			return slackOfExpr(a.Args[0], n.Input)
		}
		return exact
	case *plan.Window:
		if column >= len(n.Input.Schema().Fields) {
			return exact
		}
	}
	if j, ok := n.(*plan.Join); ok {
		if split := len(j.Left.Schema().Fields); column >= split {
			return slackOf(j.Right, column-split)
		}
		return slackOf(j.Left, column)
	}
	s := exact
	for _, in := range n.Inputs() {
		s = max(s, slackOf(in, column))
	}
	return s
}

func slackOfExpr(e plan.Expr, in plan.Node) slack {
	s := exact
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			s = max(s, slackOf(in, c.Index))
		}
	})
	return s
}

func near(a, b []types.Value, slacks []slack) bool {
	for i := range a {
		if !nearly(a[i], b[i], slacks[i]) {
			return false
		}
	}
	return true
}

func nearly(a, b types.Value, s slack) bool {
	if s == unknowable {
		return true
	}
	if a.IsNull || b.IsNull || a.Type != b.Type {
		return a.IsNull == b.IsNull && a.Type == b.Type
	}
	switch {
	case a.Type == types.List:
		x, y := a.A.([]types.Value), b.A.([]types.Value)
		return slices.EqualFunc(x, y, func(v, w types.Value) bool { return nearly(v, w, s) })
	case Order(a, b) == 0:
		return true
	case s == exact:
		return false
	case a.Type == types.Double:
		return math.Abs(a.F-b.F) <= float64(s)*max(math.Abs(a.F), math.Abs(b.F))+1e-9
	case a.Type == types.Duration: // rounded, too
		return math.Abs(float64(a.I)-float64(b.I)) <= float64(s)*max(math.Abs(float64(a.I)), math.Abs(float64(b.I)))+1
	}
	return false
}
