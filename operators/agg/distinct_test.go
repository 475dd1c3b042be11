package agg

import (
	"fmt"
	"math"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// Exact up to 10,000 values, within 2 % beyond, whatever the type, and however
// often a value comes back.
// standardError of a sketch, which is seeded anew in each process.
const standardError = 0.0081

func TestCountDistinct(t *testing.T) {
	for _, n := range []int{1, 9_999, 10_000, 10_001, 200_000} {
		for typ, value := range map[types.Type]func(i int) types.Value{
			types.Bigint:  func(i int) types.Value { return types.Int(int64(i)) },
			types.Double:  func(i int) types.Value { return types.Float(float64(i) / 3) },
			types.Varchar: func(i int) types.Value { return types.Str(fmt.Sprint("value ", i)) },
		} {
			var vs []types.Value
			for i := range n + n/2 {
				vs = append(vs, value(i%n))
			}
			got, err := foldRows(t, typ, "count(distinct x)", vs...)
			if err != nil {
				t.Fatal(err)
			}
			if off := math.Abs(float64(got.I) - float64(n)); n <= exactValues && off > 0 || off > 5*standardError*float64(n) {
				t.Errorf("%s: %d of %d values", typ, got.I, n)
			}
		}
	}
}

// Strings that are in a sketch are not kept besides, also when they come in
// ever new dictionaries.
func TestCountDistinctForgetsStrings(t *testing.T) {
	a := newCountDistinct(types.Varchar)
	a.Grow(1)
	in := fold.Input{Groups: make([]uint32, batch.MaxRows), Words: make([]uint64, batch.MaxRows)}
	const n = 400
	for k := range n {
		b := batch.New([]types.Type{types.Varchar})
		for i := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprint(k, "-", i)))
		}
		in.Rows, in.Arg = batch.RowsOf(b), &b.Cols[0]
		a.Update(&in)
		if s := a.values.space.Size(); s > 2*exactValues+rowstore.MaxDict+2*batch.MaxRows {
			t.Fatalf("%d strings kept", s)
		}
	}
	out := batch.Column{Type: types.Bigint}
	if err := a.Output([]uint32{0}, &out, fold.Instant{}); err != nil {
		t.Fatal(err)
	}
	if want := float64(n * batch.MaxRows); math.Abs(float64(out.Int[0])-want) > 5*standardError*want {
		t.Errorf("%d of %g values", out.Int[0], want)
	}
}
