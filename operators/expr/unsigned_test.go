package expr

import (
	"math"
	"testing"

	"endoscope/planner/types"
)

const (
	top     = uint64(1) << 63 // the first UBIGINT that is no BIGINT
	maxUint = uint64(math.MaxUint64)
)

func init() {
	scalarCases = append(scalarCases, unsignedCases...)
}

// unsignedCases says what UBIGINT means on both sides of 2^63, alone and beside BIGINT.
var unsignedCases = []struct {
	fn   string
	args []types.Value
	want any
}{
	{"=", vs(U(maxUint), U(maxUint)), B(true)},
	{"=", vs(U(maxUint), I(-1)), B(false)}, // the same bits
	{"=", vs(I(-1), U(maxUint)), B(false)},
	{"=", vs(U(7), I(7)), B(true)},
	{"=", vs(U(7), N(types.Bigint)), N(types.Boolean)},
	{"<>", vs(U(top), I(minInt)), B(true)},
	{"<", vs(U(maxInt), U(top)), B(true)},
	{"<", vs(U(top), U(maxInt)), B(false)},
	{"<", vs(I(minInt), U(0)), B(true)},
	{"<", vs(U(0), I(minInt)), B(false)},
	{"<=", vs(U(top), I(maxInt)), B(false)},
	{"<=", vs(I(maxInt), U(top)), B(true)},
	{">", vs(U(maxUint), U(0)), B(true)},
	{">", vs(U(0), I(-1)), B(true)},
	{">=", vs(U(maxUint), I(maxInt)), B(true)},
	{">=", vs(I(-1), U(maxUint)), B(false)},
	{"+", vs(U(maxInt), U(1)), U(top)},
	{"+", vs(U(maxUint), U(1)), "UBIGINT out of range"},
	{"+", vs(U(maxUint), N(types.Ubigint)), N(types.Ubigint)},
	{"-", vs(U(maxUint), U(top)), U(maxInt)},
	{"-", vs(U(0), U(1)), "UBIGINT out of range"},
	{"*", vs(U(1<<32), U(1<<31)), U(top)},
	{"*", vs(U(1<<32), U(1<<32)), "UBIGINT out of range"},
	{"/", vs(U(maxUint), U(2)), U(maxInt)},
	{"/", vs(U(maxUint), U(maxUint)), U(1)}, // not 1/-1
	{"/", vs(U(1), U(0)), N(types.Ubigint)},
	{"%", vs(U(maxUint), U(10)), U(5)},
	{"%", vs(U(1), U(0)), N(types.Ubigint)},
	{"abs", vs(U(maxUint)), U(maxUint)},
	{"hex", vs(U(maxUint)), S("0xffffffffffffffff")},
	{"least", vs(U(top), U(maxInt), U(maxUint)), U(maxInt)},
	{"greatest", vs(U(top), U(maxInt), N(types.Ubigint)), U(top)},
	{"nullif", vs(U(top), U(top)), N(types.Ubigint)},
}

// A number converts by value or not at all.
func TestUnsignedCasts(t *testing.T) {
	for _, c := range []struct {
		from types.Value
		to   types.Type
		want any
	}{
		{U(maxInt), types.Bigint, I(maxInt)},
		{U(top), types.Bigint, "BIGINT out of range in c0::bigint"},
		{I(0), types.Ubigint, U(0)},
		{I(-1), types.Ubigint, "UBIGINT out of range in c0::ubigint"},
		{U(top), types.Double, F(1 << 63)},
		{F(1 << 63), types.Ubigint, U(top)},
		{F(0.5), types.Ubigint, U(1)},
		{F(1 << 64), types.Ubigint, "UBIGINT out of range in c0::ubigint"},
		{F(-1), types.Ubigint, "UBIGINT out of range in c0::ubigint"},
		{F(nan), types.Ubigint, "UBIGINT out of range in c0::ubigint"},
		{U(5), types.Duration, D(5)},
		{U(top), types.Duration, "DURATION out of range in c0::duration"},
		{T(-1), types.Ubigint, "UBIGINT out of range in c0::ubigint"},
		{U(maxUint), types.Varchar, S("18446744073709551615")},
		{S(" 18446744073709551615"), types.Ubigint, U(maxUint)},
		{S("18446744073709551616"), types.Ubigint, N(types.Ubigint)},
		{S("-1"), types.Ubigint, N(types.Ubigint)},
		{B(true), types.Ubigint, U(1)},
		{U(top), types.Boolean, B(true)},
	} {
		got, err := evalOnce(cast(col(0, c.from.Type), c.to), vs(c.from))
		if text, failed := c.want.(string); failed {
			if err == nil || err.Error() != text {
				t.Errorf("%+v as %s: %+v, %v; want error %q", c.from, c.to, got, err, text)
			}
		} else if err != nil || !sameValue(got, c.want.(types.Value)) {
			t.Errorf("%+v as %s: %+v, %v; want %+v", c.from, c.to, got, err, c.want)
		}
	}
}
