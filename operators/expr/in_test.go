package expr

import (
	"math"
	"testing"

	"endoscope/planner/types"

	"pgregory.net/rapid"
)

func TestIn(t *testing.T) {
	for _, c := range []struct {
		x    types.Value
		list []types.Value
		want types.Value
	}{
		{I(1), vs(I(1), I(2)), B(true)},
		{I(3), vs(I(1), I(2)), B(false)},
		{I(3), vs(I(1), N(types.Bigint)), N(types.Boolean)},
		{I(1), vs(I(1), N(types.Bigint)), B(true)},
		{N(types.Bigint), vs(I(1)), N(types.Boolean)},
		{I(minInt), vs(I(minInt), I(maxInt)), B(true)},
		{D(5), vs(D(5)), B(true)},
		{T(5), vs(T(6)), B(false)},
		{F(math.NaN()), vs(F(math.NaN())), B(true)},
		{F(math.Copysign(0, -1)), vs(F(0)), B(true)},
		{F(1), vs(F(2), N(types.Double)), N(types.Boolean)},
		{S("a"), vs(S("b"), S("a")), B(true)},
		{S("a"), vs(S("A")), B(false)},
		{S("a"), vs(S("b"), N(types.Varchar)), N(types.Boolean)},
		{raw("a"), vs(raw("a")), B(true)},
		{B(true), vs(B(false)), B(false)},
		{B(true), vs(B(false), B(true)), B(true)},
		{B(false), vs(B(true), N(types.Boolean)), N(types.Boolean)},
	} {
		e := in(col(0, c.x.Type), c.list...)
		if got, err := evalOnce(e, vs(c.x)); err != nil || !sameValue(got, c.want) {
			t.Errorf("%s of %+v: %+v, %v; want %+v", e, c.x, got, err, c.want)
		}
		if got, err := EvalConst(in(lit(c.x), c.list...)); err != nil || !sameValue(got, c.want) {
			t.Errorf("%s of constant %+v: %+v, %v; want %+v", e, c.x, got, err, c.want)
		}
	}
}

// TestIntSet: the hash set has what a map has, also where keys collide.
func TestIntSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20),
			rapid.Map(rapid.Int64Range(0, 40), func(k int64) int64 { return k << 58 }))
		list := rapid.SliceOf(key).Draw(t, "list")
		m := map[int64]bool{}
		for _, v := range list {
			m[v] = true
		}
		set := newIntSet(list)
		for _, v := range append(rapid.SliceOf(key).Draw(t, "probes"), list...) {
			if set.has(v) != m[v] {
				t.Fatalf("has(%d) = %v with %v", v, set.has(v), list)
			}
		}
	})
}
