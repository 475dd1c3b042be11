package agg

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/DataDog/sketches-go/ddsketch"
	"pgregory.net/rapid"

	"endoscope/planner/types"
)

// The result is the reference sketch's value for the value of that rank, for
// numbers of either sign and any size. (The reference chooses differently between
// two ranks for negative numbers.)
func TestQuantileIsDDSketch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(
			rapid.Float64Range(-100, 100), rapid.SampledFrom([]float64{0, 1, -1, 1e300, -1e-300, math.SmallestNonzeroFloat64}),
		), 1, 200).Draw(rt, "x")
		q := rapid.Float64Range(0, 1).Draw(rt, "q")
		got, err := foldRows(t, types.Double, fmt.Sprintf("quantile(x, %.17f)", q), doubles(xs...)...)
		if err != nil {
			rt.Fatal(err)
		}
		slices.Sort(xs)
		sketch, err := ddsketch.NewDefaultDDSketch(sketchAccuracy)
		if err != nil {
			rt.Fatal(err)
		}
		if err := sketch.Add(xs[int(q*float64(len(xs)-1))]); err != nil {
			rt.Fatal(err)
		}
		want, err := sketch.GetValueAtQuantile(0.5)
		if err != nil || math.Abs(got.F-want) > 1e-12*math.Abs(want) {
			rt.Errorf("%g-quantile is %v, not %g, %v", q, got.F, want, err)
		}
	})
}

func TestQuantileEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		text string
		x    []types.Value
		want types.Value
	}{
		{"median(x)", doubles(nan, nan), types.NullOf(types.Double)},
		{"median(x)", doubles(nan, 0, nan), types.Float(0)},
		{"quantile(x, 0.0)", doubles(-inf, 0, inf), types.Float(-sketchMax)},
		{"quantile(x, 1.0)", doubles(-inf, 0, inf), types.Float(sketchMax)},
		{"median(x)", integersOf(types.Bigint, -100, 0, 100), types.Float(0)},
		{"median(x)", integersOf(types.Duration, 1000), types.Dur(1000)},
		{"quantile(x, 0.0)", integersOf(types.Bigint, math.MinInt64, 5), types.Float(math.MinInt64)},
	} {
		got, err := foldRows(t, c.x[0].Type, c.text, c.x...)
		if err != nil || got.Type != c.want.Type || got.IsNull != c.want.IsNull ||
			math.Abs(got.F-c.want.F) > sketchAccuracy*math.Abs(c.want.F) ||
			math.Abs(float64(got.I-c.want.I)) > sketchAccuracy*math.Abs(float64(c.want.I)) {
			t.Errorf("%s of %v is %v, %v, not %v", c.text, c.x, got, err, c.want)
		}
	}
}
