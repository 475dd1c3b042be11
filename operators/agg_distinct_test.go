package operators

import (
	"fmt"
	"math"
	"testing"

	"endoscope/operators/batch"
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
			got, err := fold(t, typ, "count(distinct x)", vs...)
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
	a.grow(1)
	in := folding{groups: make([]uint32, batch.MaxRows), words: make([]uint64, batch.MaxRows)}
	const n = 400
	for k := range n {
		b := batch.New([]types.Type{types.Varchar})
		for i := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprint(k, "-", i)))
		}
		in.rows, in.arg = rowsOf(b), &b.Cols[0]
		a.update(&in)
		if s := a.values.space.size(); s > 2*exactValues+maxDict+2*batch.MaxRows {
			t.Fatalf("%d strings kept", s)
		}
	}
	out := batch.Column{Type: types.Bigint}
	if err := a.output([]uint32{0}, &out, instant{}); err != nil {
		t.Fatal(err)
	}
	if want := float64(n * batch.MaxRows); math.Abs(float64(out.Int[0])-want) > 5*standardError*want {
		t.Errorf("%d of %g values", out.Int[0], want)
	}
}

// Beyond what is exact the estimate of merged states is that of all values at one place.
func TestCountDistinctMergesBeyondExact(t *testing.T) {
	in := folding{groups: make([]uint32, batch.MaxRows), words: make([]uint64, batch.MaxRows)}
	fill := func(a *countDistinct, from, to int) {
		for ; from < to; from += batch.MaxRows {
			b := batch.New([]types.Type{types.Varchar})
			for i := from; i < min(to, from+batch.MaxRows); i++ {
				b.AppendRow(types.Str(fmt.Sprint("value ", i)))
			}
			in.rows, in.arg = rowsOf(b), &b.Cols[0]
			a.update(&in)
		}
	}
	result := func(a *countDistinct) int64 {
		out := batch.Column{Type: types.Bigint}
		if err := a.output([]uint32{0}, &out, instant{}); err != nil {
			t.Fatal(err)
		}
		return out.Int[0]
	}
	for _, parts := range [][]int{{0, 6_000, 12_000}, {0, 15_000, 40_000}, {0, 100, 20_000, 20_100}} {
		one, merged := newCountDistinct(types.Varchar), newCountDistinct(types.Varchar)
		one.grow(1)
		merged.grow(1)
		for i := range len(parts) - 1 {
			part := newCountDistinct(types.Varchar)
			part.grow(1)
			fill(part, max(0, parts[i]-500), parts[i+1]) // some are in two parts
			fill(one, max(0, parts[i]-500), parts[i+1])
			state := batch.New([]types.Type{types.Bytes, types.Bigint})
			part.states([]uint32{0}, state.Cols)
			in.rows = []uint16{0}
			if err := merged.merge(&in, state.Cols); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := result(merged), result(one); got != want {
			t.Errorf("%v: %d of the states, %d of the values", parts, got, want)
		}
	}
}
