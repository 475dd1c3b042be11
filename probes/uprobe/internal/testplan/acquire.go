package testplan

import (
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Acquire is a specification of some of a stream's columns.
func Acquire(stream string, t plan.Target, sel plan.Expr, cols ...string) *plan.Acquire {
	a := &plan.Acquire{Stream: stream, Target: t, Select: sel, Out: types.Schema{Time: -1}}
	for _, name := range cols {
		for _, f := range catalog.Must(stream).Fields() {
			if f.Name == name {
				a.Out.Fields = append(a.Out.Fields, f)
			}
		}
	}
	a.Out.Time = a.Out.Index("timestamp")
	return a
}
