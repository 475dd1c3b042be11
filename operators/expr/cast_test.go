package expr

import (
	"errors"
	"math"
	"testing"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/planner/types"

	"pgregory.net/rapid"
)

func TestCast(t *testing.T) {
	failed := N // text that is none of the type's is NULL
	for _, c := range []struct {
		from types.Value
		to   types.Type
		want any // types.Value, or string: an error
	}{
		{I(5), types.Double, F(5)},
		{I(5), types.Duration, D(5)},
		{I(5), types.Timestamp, T(5)},
		{I(-5), types.Boolean, B(true)},
		{I(0), types.Boolean, B(false)},
		{D(5), types.Bigint, I(5)},
		{D(5), types.Double, F(5)},
		{T(5), types.Bigint, I(5)},
		{T(5), types.Duration, D(5)},
		{B(true), types.Bigint, I(1)},
		{B(false), types.Bigint, I(0)},
		{F(2.5), types.Bigint, I(3)},
		{F(-2.5), types.Bigint, I(-3)},
		{F(2.4), types.Duration, D(2)},
		{F(0.5), types.Timestamp, T(1)},
		{F(math.NaN()), types.Bigint, "BIGINT out of range in c0::bigint"},
		{F(1 << 63), types.Bigint, "BIGINT out of range in c0::bigint"},
		{F(-1 << 63), types.Bigint, I(minInt)},
		{F(math.Inf(-1)), types.Duration, "DURATION out of range in c0::duration"},

		{B(true), types.Varchar, S("true")},
		{I(-12), types.Varchar, S("-12")},
		{F(0.1), types.Varchar, S("0.1")},
		{F(1e21), types.Varchar, S("1e+21")},
		{F(math.NaN()), types.Varchar, S("NaN")},
		{D(1_500_000), types.Varchar, S("1500us")},
		{D(0), types.Varchar, S("0ns")},
		{T(1), types.Varchar, S("1970-01-01T00:00:00.000000001Z")},
		{raw("\xff"), types.Varchar, S("\xff")},
		{S("x"), types.Bytes, raw("x")},
		{types.ListOf(vs(I(1), S("a"), D(5e9), N(types.Bigint), types.ListOf(vs(T(0))))), types.Varchar,
			S("[1, a, 5s, NULL, [1970-01-01T00:00:00Z]]")},
		{types.Value{Type: types.Encoding, A: plan.Errorf(-1, -1, "printed")}, types.Varchar, S("printed")},

		{S(" 42 "), types.Bigint, I(42)},
		{S("-9223372036854775808"), types.Bigint, I(minInt)},
		{S("9223372036854775808"), types.Bigint, failed(types.Bigint)},
		{S("4.5"), types.Bigint, failed(types.Bigint)},
		{S(""), types.Bigint, failed(types.Bigint)},
		{S("1e3"), types.Double, F(1000)},
		{S("1e999"), types.Double, failed(types.Double)},
		{S("abc"), types.Double, failed(types.Double)},
		{S("TRUE"), types.Boolean, B(true)},
		{S("off"), types.Boolean, B(false)},
		{S("maybe"), types.Boolean, failed(types.Boolean)},
		{S("1970-01-01T00:00:01.5Z"), types.Timestamp, T(1_500_000_000)},
		{S("1970-01-01 01:00:00+01:00"), types.Timestamp, T(0)},
		{S("1970-01-01 00:00:01"), types.Timestamp, T(1e9)},
		{S("1970-01-02"), types.Timestamp, T(day)},
		{S("9999-01-01"), types.Timestamp, failed(types.Timestamp)},
		{S("yesterday"), types.Timestamp, failed(types.Timestamp)},
		{S("5us"), types.Duration, D(5000)},
		{S("-1.5 s"), types.Duration, D(-1_500_000_000)},
		{S("2min"), types.Duration, D(120e9)},
		{S("1d"), types.Duration, D(day)},
		{S("9223372036855us"), types.Duration, D(9223372036855000)},
		{S("9223372036854776us"), types.Duration, failed(types.Duration)},
		{S("5"), types.Duration, failed(types.Duration)},
		{S("s"), types.Duration, failed(types.Duration)},
		{S("5 weeks"), types.Duration, failed(types.Duration)},
		{N(types.Varchar), types.Bigint, N(types.Bigint)},
		{N(types.Double), types.Bigint, N(types.Bigint)},
		{N(types.Null), types.Double, N(types.Double)},
		{I(5), types.Bigint, I(5)},
	} {
		got, err := evalOnce(cast(col(0, c.from.Type), c.to), vs(c.from))
		if text, ok := c.want.(string); ok {
			var pe *plan.Error
			if !errors.As(err, &pe) || pe.Msg != text {
				t.Errorf("%+v as %s: %+v, %v; want error %q", c.from, c.to, got, err, text)
			}
			continue
		}
		if err != nil || !sameValue(got, c.want.(types.Value)) {
			t.Errorf("%+v as %s: %+v, %v; want %+v", c.from, c.to, got, err, c.want)
		}
		if folded, err := EvalConst(cast(lit(c.from), c.to)); err != nil || !sameValue(folded, got) {
			t.Errorf("%+v as %s: as a constant %+v, %v", c.from, c.to, folded, err)
		}
	}
}

// TestCastRoundTrip: what a cast to VARCHAR prints, a cast back reads.
func TestCastRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		for _, v := range vs(I(n), D(n), T(n), B(n > 0), F(rapid.Float64().Draw(t, "f"))) {
			back, err := evalOnce(cast(cast(col(0, v.Type), types.Varchar), v.Type), vs(v))
			if err != nil || !sameValue(back, v) {
				t.Fatalf("%+v came back as %+v, %v", v, back, err)
			}
		}
	})
}
