package encoders_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/encoders"
)

func TestStatsJSON(t *testing.T) {
	var s encoders.Stats
	for _, x := range []int64{2e9, 4e9, -math.MaxInt64} {
		s.Add(x)
	}
	got, err := json.Marshal(s)
	if want := `{"count":3,"timed":3,"sum_ns":-9223372030854775807,"sumsq_ns2":85070591730234615867396907784232501249}`; err != nil || string(got) != want {
		t.Errorf("%s\nwant %s, %v", got, want, err)
	}
}

// Many merged parts have the mean and deviation of the whole, to the last bit.
func TestStatsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(-1e15, 1e15), 2, 50).Draw(t, "times")
		cut := rapid.IntRange(0, len(times)).Draw(t, "cut")
		var whole, left, right encoders.Stats
		var mean, dev float64
		for i, x := range times {
			whole.Add(x)
			if i < cut {
				left.Add(x)
			} else {
				right.Add(x)
			}
			mean += float64(x) / float64(len(times))
		}
		for _, x := range times {
			dev += (float64(x) - mean) * (float64(x) - mean)
		}
		dev = math.Sqrt(dev / float64(len(times)-1))
		right.Merge(&left)
		if right != whole {
			t.Fatalf("merged %+v, whole %+v", right, whole)
		}
		if math.Abs(whole.Mean()-mean) > 1 || math.Abs(whole.Deviation()-dev) > 1e-6*dev+1 {
			t.Fatalf("mean %g, deviation %g; want %g, %g", whole.Mean(), whole.Deviation(), mean, dev)
		}
	})
}
