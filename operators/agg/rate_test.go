package agg

import (
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/types"
)

// Rows per second from the arming of the query to the Tick, or to now at the end;
// a Tick not later than the start yields no rate.
func TestRate(t *testing.T) {
	const armed = int64(1_000_000_000_000)
	in := testplan.Relation("x:bigint")
	n := testplan.GroupBy(in, "", "rate(*)")
	got := &results{}
	op, err := New(n, got, &operators.Options{Start: armed})
	if err != nil {
		t.Fatal(err)
	}
	op.clock = func() int64 { return armed + 8e9 }
	b := batch.New(in.Out.Types())
	for range 12 {
		b.AppendRow(types.Int(0))
	}
	if _, err := op.Push(t.Context(), 0, b); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{armed, armed + 4e9} {
		if _, err := op.Signal(t.Context(), 0, operators.Signal{Kind: operators.Tick, Time: at, Preview: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := op.Close(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if v := got.rows[0][0]; !v.IsNull {
		t.Errorf("rate of no time is %v", v)
	}
	if a, b := got.rows[2][0].F, got.rows[4][0].F; a != 3 || b != 1.5 {
		t.Errorf("rates %g and %g, not 3 and 1.5", a, b)
	}
}
