package testplan

import (
	"slices"
	"strings"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Agg parses "sum(x)", "count(*)", "quantile(x, 0.5)", "count(distinct s)" and so on over
// the columns of in.
func Agg(in plan.Node, text string) plan.Agg {
	name, rest, _ := strings.Cut(text, "(")
	f := plan.Agg{Fn: name}
	for i, arg := range strings.Split(strings.TrimSuffix(rest, ")"), ", ") {
		arg, distinct := strings.CutPrefix(arg, "distinct ")
		f.Distinct = f.Distinct || distinct
		switch {
		case arg == "*":
			f.Star = true
		case i == 0:
			f.Args = []plan.Expr{Column(in, arg)}
		case strings.Contains(arg, "."):
			f.Params = append(f.Params, Value(types.Double, arg))
		default:
			f.Params = append(f.Params, Value(types.Bigint, arg))
		}
	}
	arg := types.Null
	if len(f.Args) > 0 {
		arg = f.Args[0].Type()
	}
	f.T = plan.FindAgg(name).Result(arg)
	return f
}

// GroupBy returns an aggregate node: keys are column names, aggs as Agg parses them, both
// separated by "; ".
func GroupBy(in plan.Node, keys, aggs string) *plan.Aggregate {
	n := &plan.Aggregate{Input: in, Out: types.Schema{Time: -1}}
	for _, name := range strings.Fields(keys) {
		k := Column(in, name)
		if name == "window_end" {
			n.Windowed, n.WindowEnd = true, len(n.Keys)
		}
		n.Keys = append(n.Keys, k)
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: name, Type: k.T})
	}
	for text := range strings.SplitSeq(aggs, "; ") {
		f := Agg(in, text)
		n.Aggs = append(n.Aggs, f)
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: text, Type: f.T})
	}
	return n
}

func Every(n *plan.Aggregate, m plan.EmitMode) *plan.Aggregate {
	n.Emit.Mode = m
	return n
}

func Positive(in plan.Node) plan.Node {
	return &plan.Filter{Input: in, Cond: Call(types.Boolean, ">", Column(in, "x"), Literal(types.Int(0)))}
}

// The tests of operators are plays: a plan, the output of its sources, and the expected
// result, in one notation.
//
//	1 10 a        a row: its values, separated by spaces; null is NULL
//	--            the batch ends here (so it does before a signal)
//	+ 0 a 3       a partial row (plan.Partial), in a batch of its own
//	wm 5          a watermark; also: tick 5, preview 5, gap late 3,
//	              barrier 1, flush
//	close         the source ends
//	1: 3 7 b      the same for source number 1 (default 0)
//
// A drained source prints "drain 0" in the output, once.

// Relation returns a leaf with columns like "t:bigint s:varchar"; t is event time.
func Relation(columns string) *plan.Acquire {
	a := &plan.Acquire{Stream: "test", Out: types.Schema{Time: -1}}
	for _, c := range strings.Fields(columns) {
		name, typ, _ := strings.Cut(c, ":")
		t, ok := types.ParseType(typ)
		if !ok && typ == "list" {
			t = types.List
		}
		if name == "t" {
			a.Out.Time = len(a.Out.Fields)
		}
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: name, Type: t})
	}
	return a
}

func Column(in plan.Node, name string) *plan.Col {
	i := in.Schema().Index(name)
	return &plan.Col{Index: i, Name: name, T: in.Schema().Fields[i].Type}
}

func Call(t types.Type, fn string, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: t}
}

func Literal(v types.Value) plan.Expr { return &plan.Const{V: v} }

func Projection(in plan.Node) plan.Node {
	sum := Call(types.Bigint, "+", Column(in, "x"), Literal(types.Int(1)))
	up := Call(types.Varchar, "upper", Column(in, "s"))
	return &plan.Project{Input: in, Exprs: []plan.Expr{up, sum, Column(in, "x"), Column(in, "x")},
		Out: types.Schema{Time: -1, Fields: []types.Field{
			{Name: "up", Type: types.Varchar}, {Name: "sum", Type: types.Bigint},
			{Name: "x", Type: types.Bigint}, {Name: "again", Type: types.Bigint}}}}
}

func OrderBy(in plan.Node, keys ...string) *plan.Sort {
	s := &plan.Sort{Input: in}
	for _, k := range keys {
		name, dir, _ := strings.Cut(k, " ")
		s.Keys = append(s.Keys, plan.SortKey{X: Column(in, name), Desc: dir == "desc"})
	}
	return s
}

func UnionOf(ins ...plan.Node) *plan.Union {
	return &plan.Union{Ins: ins, Out: ins[0].Schema()}
}

func SessionOf(in plan.Node, gap time.Duration, hold bool, by ...string) *plan.Window {
	spec := plan.WindowSpec{Kind: plan.Session, Gap: gap}
	for _, name := range by {
		spec.PartitionBy = append(spec.PartitionBy, Column(in, name))
	}
	return Window(in, spec, hold)
}

// Window returns a window over in, with the two columns that it adds.
func Window(in plan.Node, spec plan.WindowSpec, hold bool) *plan.Window {
	out := in.Schema()
	spec.Time = out.Time
	t := out.Fields[out.Time].Type
	out.Fields = append(slices.Clone(out.Fields),
		types.Field{Name: "window_start", Type: t}, types.Field{Name: "window_end", Type: t})
	return &plan.Window{Input: in, Spec: spec, Hold: hold, Out: out}
}

func Tumbling(size time.Duration) plan.WindowSpec {
	return plan.WindowSpec{Kind: plan.Tumble, Size: size}
}

func Hopping(slide, size time.Duration) plan.WindowSpec {
	return plan.WindowSpec{Kind: plan.Hop, Slide: slide, Size: size}
}
