package approx

import (
	"maps"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/types"
)

// Bucket is one of an estimated histogram.
type Bucket struct {
	Low, High types.Value
	Count     estimate.Interval
}

// Buckets estimates a histogram: the counts of those buckets of which values were seen, in
// their order. Nothing is known of others.
func (g *Group) Buckets(acc fold.Buckets) []Bucket {
	seen := map[int64]map[uint32]float64{} // by bucket and state
	for _, m := range g.Members {
		acc.Buckets(m.State, func(bucket, n int64) {
			if seen[bucket] == nil {
				seen[bucket] = map[uint32]float64{}
			}
			seen[bucket][m.State] = float64(n)
		})
	}
	var list []Bucket
	for _, bucket := range slices.Sorted(maps.Keys(seen)) {
		b := Bucket{Count: g.total(func(m Member) float64 { return seen[bucket][m.State] })}
		b.Low, b.High = acc.Borders(bucket)
		list = append(list, b)
	}
	return list
}
