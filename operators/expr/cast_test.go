package expr

import (
	"errors"
	"math"
	"testing"

	"endoscope/operators/batch"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"

	"pgregory.net/rapid"
)

func TestCast(t *testing.T) {
	failed := N // text that is none of the type's is NULL
	for _, c := range []struct {
		from batch.Value
		to   batch.Type
		want any // batch.Value, or string: an error
	}{
		{I(5), batch.Double, F(5)},
		{I(5), batch.Duration, D(5)},
		{I(5), batch.Timestamp, T(5)},
		{I(-5), batch.Boolean, B(true)},
		{I(0), batch.Boolean, B(false)},
		{D(5), batch.Bigint, I(5)},
		{D(5), batch.Double, F(5)},
		{T(5), batch.Bigint, I(5)},
		{T(5), batch.Duration, D(5)},
		{B(true), batch.Bigint, I(1)},
		{B(false), batch.Bigint, I(0)},
		{F(2.5), batch.Bigint, I(3)},
		{F(-2.5), batch.Bigint, I(-3)},
		{F(2.4), batch.Duration, D(2)},
		{F(0.5), batch.Timestamp, T(1)},
		{F(math.NaN()), batch.Bigint, "BIGINT out of range in c0::bigint"},
		{F(1 << 63), batch.Bigint, "BIGINT out of range in c0::bigint"},
		{F(-1 << 63), batch.Bigint, I(minInt)},
		{F(math.Inf(-1)), batch.Duration, "DURATION out of range in c0::duration"},

		{B(true), batch.Varchar, S("true")},
		{I(-12), batch.Varchar, S("-12")},
		{F(0.1), batch.Varchar, S("0.1")},
		{F(1e21), batch.Varchar, S("1e+21")},
		{F(math.NaN()), batch.Varchar, S("NaN")},
		{D(1_500_000), batch.Varchar, S("1500us")},
		{D(0), batch.Varchar, S("0ns")},
		{T(1), batch.Varchar, S("1970-01-01T00:00:00.000000001Z")},
		{raw("\xff"), batch.Varchar, S("\xff")},
		{S("x"), batch.Bytes, raw("x")},
		{batch.ListOf(vs(I(1), S("a"), D(5e9), N(batch.Bigint), batch.ListOf(vs(T(0))))), batch.Varchar,
			S("[1, a, 5s, NULL, [1970-01-01T00:00:00Z]]")},
		{batch.Value{Type: batch.Encoding, A: plan.Errorf(-1, -1, "printed")}, batch.Varchar, S("printed")},

		{S(" 42 "), batch.Bigint, I(42)},
		{S("-9223372036854775808"), batch.Bigint, I(minInt)},
		{S("9223372036854775808"), batch.Bigint, failed(batch.Bigint)},
		{S("4.5"), batch.Bigint, failed(batch.Bigint)},
		{S(""), batch.Bigint, failed(batch.Bigint)},
		{S("1e3"), batch.Double, F(1000)},
		{S("1e999"), batch.Double, failed(batch.Double)},
		{S("abc"), batch.Double, failed(batch.Double)},
		{S("TRUE"), batch.Boolean, B(true)},
		{S("off"), batch.Boolean, B(false)},
		{S("maybe"), batch.Boolean, failed(batch.Boolean)},
		{S("1970-01-01T00:00:01.5Z"), batch.Timestamp, T(1_500_000_000)},
		{S("1970-01-01 01:00:00+01:00"), batch.Timestamp, T(0)},
		{S("1970-01-01 00:00:01"), batch.Timestamp, T(1e9)},
		{S("1970-01-02"), batch.Timestamp, T(day)},
		{S("9999-01-01"), batch.Timestamp, failed(batch.Timestamp)},
		{S("yesterday"), batch.Timestamp, failed(batch.Timestamp)},
		{S("5us"), batch.Duration, D(5000)},
		{S("-1.5 s"), batch.Duration, D(-1_500_000_000)},
		{S("2min"), batch.Duration, D(120e9)},
		{S("1d"), batch.Duration, D(day)},
		{S("9223372036855us"), batch.Duration, D(9223372036855000)},
		{S("9223372036854776us"), batch.Duration, failed(batch.Duration)},
		{S("5"), batch.Duration, failed(batch.Duration)},
		{S("s"), batch.Duration, failed(batch.Duration)},
		{S("5 weeks"), batch.Duration, failed(batch.Duration)},
		{N(batch.Varchar), batch.Bigint, N(batch.Bigint)},
		{N(batch.Double), batch.Bigint, N(batch.Bigint)},
		{N(batch.Null), batch.Double, N(batch.Double)},
		{I(5), batch.Bigint, I(5)},
	} {
		got, err := EvalRow(cast(col(0, c.from.Type), c.to), vs(c.from))
		if text, ok := c.want.(string); ok {
			var pe *plan.Error
			if !errors.As(err, &pe) || pe.Msg != text {
				t.Errorf("%+v as %s: %+v, %v; want error %q", c.from, c.to, got, err, text)
			}
			continue
		}
		if err != nil || !sameValue(got, c.want.(batch.Value)) {
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
			back, err := EvalRow(cast(cast(col(0, v.Type), batch.Varchar), v.Type), vs(v))
			if err != nil || !sameValue(back, v) {
				t.Fatalf("%+v came back as %+v, %v", v, back, err)
			}
		}
	})
}
