package agg

import (
	"math"
	"testing"

	"endoscope/planner/types"
)

func TestMoments(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	dur, big := types.Duration, types.Bigint
	for _, c := range []struct {
		text string
		x    []types.Value
		want types.Value
	}{
		{"avg(x)", integersOf(big, 1, 2), types.Float(1.5)},
		{"avg(x)", integersOf(dur, 1, 2), types.Dur(2)}, // halves away from zero
		{"avg(x)", integersOf(dur, -1, -2), types.Dur(-2)},
		{"avg(x)", integersOf(dur, most, most, most), types.Dur(most)},
		{"avg(x)", integersOf(big, least, most), types.Float(-0.5)},
		{"stddev(x)", integersOf(big, 5), types.NullOf(types.Double)},
		{"variance(x)", doubles(5), types.NullOf(types.Double)},
		{"variance(x)", integersOf(big, 5, 5, 5), types.Float(0)},
		{"stddev(x)", integersOf(dur, 2, 4, 4, 4, 5, 5, 7, 9), types.Dur(2)}, // 2.14
		{"variance(x)", integersOf(dur, 1, 3), types.Float(2)},
		// Far from zero and close together: the squares differ in digits that a
		// sum of doubles does not have.
		{"variance(x)", integersOf(big, most, most-1, most-2), types.Float(1)},
		{"variance(x)", integersOf(big, least, least+1, least+2), types.Float(1)},
		{"variance(x)", doubles(1e9+4, 1e9+7, 1e9+13, 1e9+16), types.Float(30)},
		// As far apart as they can be.
		{"variance(x)", integersOf(big, least, least, most, most), types.Float(math.Pow(2, 128) / 3)},
	} {
		got, err := foldRows(t, c.x[0].Type, c.text, c.x...)
		if err != nil || got.Type != c.want.Type || got.IsNull != c.want.IsNull || got.I != c.want.I ||
			math.Abs(got.F-c.want.F) > 1e-14*math.Abs(c.want.F) {
			t.Errorf("%s of %v is %v, %v, not %v", c.text, c.x, got, err, c.want)
		}
	}
}

// A result that its type cannot hold is an error, not another number.
func TestStddevDoesNotFit(t *testing.T) {
	if v, err := foldRows(t, types.Duration, "stddev(x)", integersOf(types.Duration, math.MinInt64, math.MaxInt64)...); err == nil {
		t.Errorf("standard deviation is %v", v)
	}
}
