package render

import (
	"math"
	"reflect"
	"strconv"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// shown is a column of a table. An estimate is shown with the columns of its bounds, which
// have no column of their own.
type shown struct {
	at        int
	low, high int // columns of the bounds; -1: it is no estimate
}

// shownColumns returns the columns of a table of a result.
func shownColumns(cols []wire.Column) (list []shown) {
	bound := func(of string, b types.Bound) int {
		for i, c := range cols {
			if c.Bound == b && c.Name == [...]string{types.Low: "low(", types.High: "high("}[b]+of+")" {
				return i
			}
		}
		return -1
	}
	for i, c := range cols {
		if c.Bound == types.NoBound {
			list = append(list, shown{i, bound(c.Name, types.Low), bound(c.Name, types.High)})
		}
	}
	return list
}

// columnsOf returns the columns that are shown.
func columnsOf(list []shown, cols []wire.Column) (out []wire.Column) {
	for _, s := range list {
		out = append(out, cols[s.at])
	}
	return out
}

// appendEstimate writes an estimate: 1.23M ±2%, or >=400 and <=5.00us if it has one bound, and
// ~1.23M without any. A value that is exact is written as others are.
func (c *clock) appendEstimate(dst []byte, v, low, high types.Value) []byte {
	if v.Type == types.List { // of counts
		if !sameList(v, low) || !sameList(v, high) {
			dst = append(dst, '~')
		}
		return c.appendHuman(dst, v)
	}
	x, l, h := numberOf(v), numberOf(low), numberOf(high)
	switch {
	case v.IsNull, !low.IsNull && !high.IsNull && l == x && h == x:
		return c.appendHuman(dst, v)
	case low.IsNull && high.IsNull && !v.Type.Numeric() && v.Type != types.Duration:
		return c.appendHuman(append(dst, '~'), v)
	case low.IsNull && high.IsNull:
		return appendThree(append(dst, '~'), v)
	case high.IsNull:
		return appendThree(append(dst, ">="...), low)
	case low.IsNull, x == 0:
		return appendThree(append(dst, "<="...), high)
	}
	dst = append(appendThree(dst, v), " ±"...)
	percent, decimals := 100*max(h-x, x-l)/math.Abs(x), 0
	if percent < 0.95 {
		decimals = 1
		percent = math.Ceil(percent*10) / 10 // not narrower than it is
	} else {
		percent = math.Ceil(percent)
	}
	return append(strconv.AppendFloat(dst, percent, 'f', decimals, 64), '%')
}

// sameList reports whether a list equals one of its bounds.
func sameList(v, bound types.Value) bool { return reflect.DeepEqual(v.A, bound.A) }

// numberOf returns a numeric value.
func numberOf(v types.Value) float64 {
	if v.Type.Physical() == types.PhysFloat {
		return v.F
	}
	return v.Type.Float(v.I)
}

// appendThree writes a value with three digits.
func appendThree(dst []byte, v types.Value) []byte {
	if v.Type == types.Duration {
		return appendHumanDuration(dst, v.I)
	}
	x := numberOf(v)
	if math.Abs(x) < 1000 {
		if x == math.Trunc(x) {
			return strconv.AppendFloat(dst, x, 'f', 0, 64)
		}
		return strconv.AppendFloat(dst, x, 'g', 3, 64)
	}
	unit := 0
	for ; math.Abs(x) >= 999.5 && unit < len(thousands)-1; unit++ {
		x /= 1000
	}
	return append(appendThreeDigits(dst, x), thousands[unit]...)
}

// thousands are the units of large numbers.
var thousands = []string{"", "k", "M", "G", "T", "P", "E"}
