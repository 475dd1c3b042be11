package agg

import (
	"fmt"
	"math"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// standardError is the standard error of a sketch, whose seed differs in each
// process. TestCountDistinct: the count is exact up to 10,000 values and within 2
// % beyond, for all types, however often a value recurs.
const standardError = 0.0081

func TestCountDistinct(t *testing.T) {
	for _, n := range testenv.Few(4, []int{1, 9_999, 10_000, 10_001, 200_000}) {
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

// Strings that are in a sketch are not kept besides, even if they arrive in ever
// new dictionaries.
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

// Beyond what is exact the estimate of merged states is that of all values at one place.
func TestCountDistinctMergesBeyondExact(t *testing.T) {
	in := fold.Input{Groups: make([]uint32, batch.MaxRows), Words: make([]uint64, batch.MaxRows)}
	fill := func(a *countDistinct, from, to int) {
		for ; from < to; from += batch.MaxRows {
			b := batch.New([]types.Type{types.Varchar})
			for i := from; i < min(to, from+batch.MaxRows); i++ {
				b.AppendRow(types.Str(fmt.Sprint("value ", i)))
			}
			in.Rows, in.Arg = batch.RowsOf(b), &b.Cols[0]
			a.Update(&in)
		}
	}
	result := func(a *countDistinct) int64 {
		out := batch.Column{Type: types.Bigint}
		if err := a.Output([]uint32{0}, &out, fold.Instant{}); err != nil {
			t.Fatal(err)
		}
		return out.Int[0]
	}
	for _, parts := range [][]int{{0, 6_000, 12_000}, {0, 15_000, 40_000}, {0, 100, 20_000, 20_100}} {
		one, merged := newCountDistinct(types.Varchar), newCountDistinct(types.Varchar)
		one.Grow(1)
		merged.Grow(1)
		for i := range len(parts) - 1 {
			part := newCountDistinct(types.Varchar)
			part.Grow(1)
			fill(part, max(0, parts[i]-500), parts[i+1]) // some are in two parts
			fill(one, max(0, parts[i]-500), parts[i+1])
			state := batch.New([]types.Type{types.Bytes, types.Bigint})
			part.States([]uint32{0}, state.Cols)
			in.Rows = []uint16{0}
			if err := merged.Merge(&in, state.Cols); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := result(merged), result(one); got != want {
			t.Errorf("%v: %d of the states, %d of the values", parts, got, want)
		}
	}
}
