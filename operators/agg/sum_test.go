package agg

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/operators/optest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// foldRows runs one aggregate without GROUP BY over values of one column and
// returns the result.
func foldRows(t *testing.T, typ types.Type, text string, vs ...types.Value) (types.Value, error) {
	t.Helper()
	in := testplan.Relation("x:" + strings.ToLower(typ.String()))
	got := &results{}
	op, err := New(testplan.GroupBy(in, "", text), got, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for len(vs) > 0 {
		b := batch.New(in.Out.Types())
		for _, v := range vs[:min(len(vs), batch.MaxRows)] {
			b.AppendRow(v)
		}
		vs = vs[b.N:]
		if _, err := op.Push(t.Context(), 0, b); err != nil {
			return types.Value{}, err
		}
	}
	if err := op.Close(t.Context(), 0); err != nil {
		return types.Value{}, err
	}
	return got.rows[0][0], nil
}

func integersOf(t types.Type, vs ...int64) (out []types.Value) {
	for _, v := range vs {
		out = append(out, types.Value{Type: t, I: v})
	}
	return out
}

func doubles(vs ...float64) (out []types.Value) {
	for _, v := range vs {
		out = append(out, types.Float(v))
	}
	return out
}

// The sum may leave 64 bits on its way, but not at its end.
func TestSumOf128Bits(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for _, c := range []struct {
		x    []int64
		want int64
		fits bool
	}{
		{[]int64{most, most, least, least, 2}, 0, true},
		{[]int64{least, least, most, 1, most}, -1, true},
		{[]int64{most, 0}, most, true},
		{[]int64{least}, least, true},
		{[]int64{most, 1}, 0, false},
		{[]int64{least, -1}, 0, false},
	} {
		for _, typ := range []types.Type{types.Bigint, types.Duration} {
			got, err := foldRows(t, typ, "sum(x)", integersOf(typ, c.x...)...)
			if !c.fits {
				want := "SUM(x) does not fit " + typ.String()
				if e, ok := err.(*plan.Error); !ok || e.Msg != want || e.Hint != "SUM(CAST(x AS DOUBLE))" {
					t.Errorf("sum of %d: %v, not %s", c.x, err, want)
				}
				continue
			}
			if err != nil || got.I != c.want || got.Type != typ {
				t.Errorf("sum of %d is %v, %v", c.x, got, err)
			}
		}
	}
}

// An int128 adds, divides and converts as a big integer does.
func TestInt128(t *testing.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64}))
	rapid.Check(t, func(t *rapid.T) {
		var s int128
		want := new(big.Int)
		typ := rapid.SampledFrom([]types.Type{types.Bigint, types.Ubigint}).Draw(t, "type")
		vs := rapid.SliceOfN(number, 1, 50).Draw(t, "x")
		for _, v := range vs {
			s.add(v, signOf(typ))
			want.Add(want, optest.Whole(types.Value{Type: typ, I: v}))
		}
		v, fits := s.word(signOf(typ))
		if expected, err := optest.Fits(want, typ); fits != (err == nil) || fits && v != expected.I {
			t.Errorf("%v as %v is %d, %v", want, typ, v, fits)
		}
		if f, _ := new(big.Float).SetInt(want).Float64(); math.Abs(s.float64()-f) > math.Abs(f)*1e-15 {
			t.Errorf("%v as a double is %g", want, s.float64())
		}
		if typ.Unsigned() { // AVG is a DOUBLE
			return
		}
		mean := typedRat(types.Bigint, new(big.Rat).SetFrac(want, big.NewInt(int64(len(vs)))))
		if got := s.quo(int64(len(vs))); got != mean.I {
			t.Errorf("%v / %d is %d, not %d", want, len(vs), got, mean.I)
		}
	})
}
