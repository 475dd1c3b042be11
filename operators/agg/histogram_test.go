package agg

import (
	"math"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// bucketsText prints a histogram: low..high: count, ...
func bucketsText(v types.Value) string {
	if v.IsNull {
		return "null"
	}
	var ss []string
	for _, b := range v.A.([]types.Value) {
		f := b.A.([]types.Value)
		ss = append(ss, plan.FormatValue(f[0])+".."+plan.FormatValue(f[1])+": "+plan.FormatValue(f[2]))
	}
	return strings.Join(ss, ", ")
}

func TestHistogram(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for _, c := range []struct {
		text string
		x    []types.Value
		want string
	}{
		{"histogram(x)", integersOf(types.Bigint, 0, 1, 2, 3, 4, 7, 8), "0..1: 1, 1..2: 1, 2..4: 2, 4..8: 2, 8..16: 1"},
		{"histogram(x)", integersOf(types.Bigint, -1, -2, -3, -4, -5), "-8..-4: 1, -4..-2: 2, -2..-1: 1, -1..0: 1"},
		{"histogram(x)", integersOf(types.Bigint, most, least, 1<<62),
			"-9223372036854775808..-4611686018427387904: 1, 4611686018427387904..null: 2"},
		{"histogram(x)", integersOf(types.Duration, 1500), "1024ns..2048ns: 1"},
		{"histogram(x)", doubles(0, 0.3, 0.5, 1, -0.5, -0.75), "-1..-0.5: 1, -0.5..-0.25: 1, 0..0: 1, 0.25..0.5: 1, 0.5..1: 1, 1..2: 1"},
		{"histogram(x)", doubles(math.NaN()), "null"},
		{"histogram(x)", doubles(math.Inf(1), math.Inf(-1)), "-Inf..-8.98846567431158e+307: 1, 8.98846567431158e+307..+Inf: 1"},
		{"histogram(x, 0.0, 10.0, 4.0)", integersOf(types.Bigint, -1, 0, 3, 4, 8, 9, 10),
			"null..0: 1, 0..4: 2, 4..8: 1, 8..10: 2, 10..null: 1"},
		{"histogram(x, 0.0, 10.0, 2.5)", integersOf(types.Bigint, 2, 3, 7, 8), "0..3: 1, 3..5: 1, 5..8: 1, 8..10: 1"},
		{"histogram(x, 0.0, 1.0, 0.1)", doubles(0, 0.1, 0.3, 0.7, 1, -0.1), "null..0: 1, 0..0.1: 1, 0.1..0.2: 1, 0.2..0.30000000000000004: 1, 0.6000000000000001..0.7000000000000001: 1, 1..null: 1"},
		{"histogram(x, -9.0e18, 9.0e18, 1.0e18)", integersOf(types.Bigint, most, least, -1, 0),
			"null..-9000000000000000000: 1, -1000000000000000000..0: 1, 0..1000000000000000000: 1, 9000000000000000000..null: 1"},
	} {
		got, err := foldRows(t, c.x[0].Type, c.text, c.x...)
		if text := bucketsText(got); err != nil || text != c.want {
			t.Errorf("%s of %v:\n got %s, %v\nwant %s", c.text, c.x, text, err, c.want)
		}
	}
}
