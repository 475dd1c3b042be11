package optest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// RandomPlan draws a plan as the planner produces them, over the streams of [RandomInput].
// Its result is deterministic: what is ordered or cut is ordered by everything that
// distinguishes rows.
func RandomPlan(t *rapid.T) plan.Node {
	g := planGen{t: t}
	switch g.n(8, "plan") {
	case 0:
		return g.streaming()
	case 1:
		return g.sorted(g.narrow(g.source(true)), false, plan.Emit{Mode: plan.EmitMode(2 * g.n(2, "every")), Every: time.Second})
	case 2:
		return g.held()
	case 3, 4:
		return g.grouped(g.windowed(g.source(true)), true)
	case 5:
		inner := g.grouped(g.source(true), false)
		if changes(inner) {
			return inner
		}
		return g.regrouped(inner)
	}
	return g.grouped(g.source(true), false)
}

// RandomAggregate draws an aggregate that can be computed in two stages: over a stream,
// optionally filtered and projected, and optionally divided into windows.
func RandomAggregate(t *rapid.T) plan.Node {
	g := planGen{t: t, states: true}
	in := g.source(false)
	if g.n(2, "windowed") == 0 {
		return g.grouped(g.windowed(in), true)
	}
	return g.grouped(in, false)
}

type planGen struct {
	t      *rapid.T
	states bool // only aggregates whose state can be sent
}

func (g planGen) n(limit int, what string) int { return rapid.IntRange(0, limit-1).Draw(g.t, what) }

func (g planGen) leaf(name string) *plan.Acquire {
	return &plan.Acquire{Stream: "file", Args: []plan.Const{{V: types.Str(name)}}, Out: RandomSchema}
}

func column(in types.Schema, i int) *plan.Col {
	return &plan.Col{Index: i, Name: in.Fields[i].Name, T: in.Fields[i].Type}
}

// source returns a stream, filtered, or two.
func (g planGen) source(may bool) plan.Node {
	var n plan.Node = g.leaf("a.csv")
	if may && g.n(5, "union") == 0 {
		n = &plan.Union{Ins: []plan.Node{g.everything(n), g.everything(g.leaf("b.csv"))}, Out: RandomSchema}
	}
	if g.n(2, "filter") == 0 {
		n = &plan.Filter{Input: n, Cond: RandomExpr(g.t, n.Schema(), types.Boolean, 3)}
	}
	if g.n(4, "project") == 0 {
		n = g.everything(n)
	}
	return n
}

// everything returns a projection that keeps names and types, and computes some of the
// columns that may have any value.
func (g planGen) everything(in plan.Node) plan.Node {
	s := in.Schema()
	p := &plan.Project{Input: in, Out: s}
	for i, f := range s.Fields {
		var x plan.Expr = column(s, i)
		if (f.Name == "g" || f.Name == "i" || f.Name == "p" || f.Name == "s") && g.n(4, "computed") == 0 {
			x = RandomExpr(g.t, s, f.Type, 2)
		}
		p.Exprs = append(p.Exprs, x)
	}
	return p
}

// narrow projects to a few expressions, the last of which numbers the rows.
func (g planGen) narrow(in plan.Node) plan.Node {
	s := in.Schema()
	p := &plan.Project{Input: in, Out: types.Schema{Time: -1}}
	for range 1 + g.n(3, "items") {
		p.Exprs = append(p.Exprs, RandomExpr(g.t, s, rapid.SampledFrom(valueTypes).Draw(g.t, "type"), 3))
	}
	for i, f := range s.Fields {
		if f.Name == "n" || f.Name == "window_start" {
			p.Exprs = append(p.Exprs, column(s, i))
		}
	}
	for _, x := range p.Exprs {
		p.Out.Fields = append(p.Out.Fields, types.Field{Name: x.String(), Type: x.Type()})
	}
	return p
}

func (g planGen) streaming() plan.Node {
	n := g.narrow(g.source(false))
	if g.n(3, "distinct") == 0 {
		n = &plan.Distinct{Input: g.column(n, 0)}
	}
	if g.n(2, "limit") == 0 {
		n = &plan.Limit{Input: n, N: int64(g.n(12, "n")), Skip: int64(g.n(4, "skip"))}
	}
	return n
}

// column keeps one column.
func (g planGen) column(in plan.Node, i int) plan.Node {
	s := in.Schema()
	return &plan.Project{Input: in, Exprs: []plan.Expr{column(s, i)}, Out: types.Schema{Fields: s.Fields[i : i+1], Time: -1}}
}

// sorted orders by some columns and then by all others, and may cut.
func (g planGen) sorted(in plan.Node, perFlush bool, emit plan.Emit) plan.Node {
	s := in.Schema()
	order := rapid.Permutation(upTo(len(s.Fields))).Draw(g.t, "order")
	n := &plan.Sort{Input: in, Emit: emit}
	for _, i := range order {
		if s.Fields[i].Type.Physical() != types.PhysAny {
			n.Keys = append(n.Keys, plan.SortKey{X: column(s, i), Desc: g.n(2, "desc") == 0})
		}
	}
	switch g.n(3, "cut") {
	case 0:
		return &plan.Limit{Input: n, N: int64(g.n(6, "n")), Skip: int64(g.n(4, "skip")), PerFlush: true}
	case 1:
		n.Limit = int64(1 + g.n(6, "top"))
	}
	return n
}

func upTo(n int) []int {
	var is []int
	for i := range n {
		is = append(is, i)
	}
	return is
}

func (g planGen) windowed(in plan.Node) *plan.Window {
	s := in.Schema()
	kinds := 3
	if g.states {
		kinds = 2 // a session has no panes
	}
	w := &plan.Window{Input: in, Spec: plan.WindowSpec{Kind: plan.WindowKind(g.n(kinds, "kind")), Time: s.Time}}
	second := time.Second
	switch w.Spec.Kind {
	case plan.Tumble:
		w.Spec.Size = time.Duration(1+g.n(3, "size")) * second
	case plan.Hop:
		w.Spec.Slide = time.Duration(1+g.n(2, "slide")) * second
		w.Spec.Size = time.Duration(1+g.n(3, "slides")) * w.Spec.Slide
	case plan.Session:
		w.Spec.Gap = time.Duration(1+g.n(4, "gap")) * second / 2
		if g.n(2, "partition") == 0 {
			w.Spec.PartitionBy = []plan.Expr{column(s, s.Index("k"))}
		}
	}
	w.Out = types.Schema{Time: s.Time, Fields: append(slices.Clone(s.Fields),
		types.Field{Name: "window_start", Type: types.Timestamp}, types.Field{Name: "window_end", Type: types.Timestamp})}
	return w
}

// held draws rows of windows, without an aggregate.
func (g planGen) held() plan.Node {
	w := g.windowed(g.source(true))
	w.Hold = true
	var n plan.Node = w
	if g.n(2, "filter") == 0 {
		n = &plan.Filter{Input: n, Cond: RandomExpr(g.t, n.Schema(), types.Boolean, 2)}
	}
	n = g.narrow(n)
	switch g.n(3, "held") {
	case 0:
		n = &plan.Distinct{Input: g.column(n, 0), PerFlush: true}
	case 1:
		n = g.sorted(n, true, plan.Emit{})
	}
	return n
}

// grouped aggregates, and filters, orders and cuts the groups.
func (g planGen) grouped(in plan.Node, windowed bool) plan.Node {
	s := in.Schema()
	a := &plan.Aggregate{Input: in, Windowed: windowed, Out: types.Schema{Time: -1}}
	for range g.n(3, "keys") {
		if g.n(3, "plain key") > 0 {
			name := rapid.SampledFrom([]string{"k", "s", "p", "d", "g", "w"}).Draw(g.t, "key")
			a.Keys = append(a.Keys, column(s, s.Index(name)))
		} else {
			a.Keys = append(a.Keys, RandomExpr(g.t, s, rapid.SampledFrom(valueTypes).Draw(g.t, "key type"), 2))
		}
	}
	if windowed {
		n := len(s.Fields)
		a.Keys = append(a.Keys, column(s, n-2), column(s, n-1))
		a.WindowEnd = len(a.Keys) - 1
	} else {
		a.Emit = plan.Emit{Mode: plan.EmitMode(g.n(3, "emit")), Every: time.Second}
		if a.Emit.Mode == plan.Changes && (g.states || len(plan.Leaves(in)) > 1) {
			a.Emit.Mode = plan.Final // which changes come together depends on how streams are merged
		}
	}
	for range 1 + g.n(4, "aggs") {
		x := g.agg(s)
		if w, ok := in.(*plan.Window); ok && x.Fn == "topk" && w.Spec.Kind == plan.Hop {
			continue // windows of a batch are filled one by one: equally frequent values have no defined order
		}
		a.Aggs = append(a.Aggs, x)
	}
	g.name(a)
	var n plan.Node = a
	if len(a.Keys) > 0 && g.n(3, "having") == 0 {
		keys := types.Schema{Fields: a.Out.Fields[:len(a.Keys)], Time: -1}
		n = &plan.Filter{Input: n, Cond: RandomExpr(g.t, keys, types.Boolean, 2)}
	}
	if a.Emit.Mode == plan.Changes || g.n(2, "sort") == 0 {
		return n
	}
	return g.byKeys(n, len(a.Keys))
}

// byKeys orders groups by their keys, which are unique.
func (g planGen) byKeys(in plan.Node, keys int) plan.Node {
	s := &plan.Sort{Input: in}
	for _, i := range rapid.Permutation(upTo(keys)).Draw(g.t, "key order") {
		s.Keys = append(s.Keys, plan.SortKey{X: column(in.Schema(), i), Desc: g.n(2, "desc") == 0})
	}
	if len(s.Keys) == 0 {
		return in
	}
	switch g.n(3, "cut") {
	case 0:
		return &plan.Limit{Input: s, N: int64(g.n(4, "n")), Skip: int64(g.n(3, "skip")), PerFlush: true}
	case 1:
		s.Limit = int64(1 + g.n(4, "top"))
	}
	return s
}

func (g planGen) name(a *plan.Aggregate) {
	for _, k := range a.Keys {
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: k.String(), Type: k.Type()})
	}
	for i := range a.Aggs {
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: a.Aggs[i].String(), Type: a.Aggs[i].T})
	}
	if a.Windowed {
		a.Out.Time = a.WindowEnd
	}
}

// agg draws an aggregate with an argument for which it is exact enough.
func (g planGen) agg(s types.Schema) plan.Agg {
	for {
		a := g.anyAgg(s)
		if !g.states || plan.KernelAggregates(&a) {
			return a
		}
	}
}

func (g planGen) anyAgg(s types.Schema) plan.Agg {
	f := rapid.SampledFrom(plan.AggFuncs).Draw(g.t, "aggregate")
	a := plan.Agg{Fn: f.Name}
	if g.n(4, "filtered") == 0 {
		a.Filter = RandomExpr(g.t, s, types.Boolean, 2)
	}
	if f.Star && (f.Args == nil || g.n(2, "star") == 0) {
		a.Star, a.T = true, f.Result(types.Invalid)
		return a
	}
	a.Distinct = f.Distinct && g.n(2, "distinct") == 0
	names := []string{"k", "f", "d"}
	if f.Name == "histogram" || f.Name == "sum" && g.n(4, "wild") == 0 {
		names = []string{"i", "w", "k", "d", "f"}
	}
	if slices.Contains(f.Args, types.Varchar) || slices.Contains(f.Args, plan.AnyType) {
		names = []string{"k", "i", "w", "f", "g", "s", "p", "d", "u"}
		if f.Name == "min" || f.Name == "max" || f.Name == "count" {
			names = append(names, "timestamp")
		}
	}
	if g.states { // which are exact for all integers
		names = append(names, "i", "i", "w")
	}
	x := column(s, s.Index(rapid.SampledFrom(names).Draw(g.t, "argument")))
	a.Args, a.T = []plan.Expr{x}, f.Result(x.T)
	switch f.Name {
	case "quantile", plan.PercentileCont:
		a.Params = []types.Value{types.Float(float64(g.n(11, "q")) / 10)}
	case "topk":
		a.Params = []types.Value{types.Int(int64(1 + g.n(4, "k")))}
	case "histogram":
		if x.Name != "i" && x.Name != "w" && g.n(2, "borders") == 0 {
			a.Params = []types.Value{types.Float(0), types.Float(float64(1 + g.n(3, "hi"))), types.Float(1)}
		}
	}
	return a
}

// changes reports whether a plan emits groups one by one.
func changes(n plan.Node) bool {
	for n := range nodes(n) {
		if a, ok := n.(*plan.Aggregate); ok && a.Emit.Mode == plan.Changes {
			return true
		}
	}
	return false
}

// regrouped aggregates, or takes the distinct rows of, the output of an aggregate.
func (g planGen) regrouped(in plan.Node) plan.Node {
	s := in.Schema()
	for i, f := range s.Fields {
		if slackOf(in, i) == exact && f.Type != types.Encoding {
			if g.n(2, "again") == 0 {
				return &plan.Distinct{Input: g.column(in, i)}
			}
			a := &plan.Aggregate{Input: in, Keys: []plan.Expr{column(s, i)}, Out: types.Schema{Time: -1},
				Aggs: []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}}}
			g.name(a)
			return a
		}
	}
	return in
}
