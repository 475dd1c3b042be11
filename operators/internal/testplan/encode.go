package testplan

import (
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Encode returns an aggregate node with one encoder: columns are the arguments, separated
// by spaces, "time=x" and "sequence=x" those by name, "k=3" options.
func Encode(in plan.Node, keys, fn, columns string) *plan.Aggregate {
	n := GroupBy(in, keys, "count(*)")
	f := plan.Agg{Fn: fn, T: types.Encoding}
	for _, c := range strings.Fields(columns) {
		name, x, named := strings.Cut(c, "=")
		switch {
		case !named:
			f.Args, f.ArgNames = append(f.Args, Column(in, c)), append(f.ArgNames, "")
		case slices.Contains([]string{plan.TimeArgument, plan.SequenceArgument, plan.BornArgument, plan.DiesArgument}, name):
			f.Args, f.ArgNames = append(f.Args, Column(in, x)), append(f.ArgNames, name)
		default:
			v := types.Str(x)
			if x[0] <= '9' {
				v = Value(types.Bigint, x)
			}
			f.Options = append(f.Options, plan.NamedValue{Name: name, V: v, Text: x})
		}
	}
	n.Aggs[0] = f
	n.Out.Fields[len(n.Keys)] = types.Field{Name: fn, Type: types.Encoding}
	return n
}
