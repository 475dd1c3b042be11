package approx

import (
	"maps"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/types"
)

// Counts is how many values there are of a bucket of a histogram, or of one value.
type Counts struct {
	Of    []types.Value // the borders of the bucket, or the value
	Count estimate.Interval
}

// Buckets estimates a histogram: the counts of those buckets of which values were seen, in
// their order. Nothing is known of others.
func (g *Group) Buckets(acc fold.Buckets) []Counts {
	seen := map[int64]map[uint32]float64{} // by bucket and state
	for _, m := range g.Members {
		acc.Buckets(m.State, func(bucket, n int64) {
			if seen[bucket] == nil {
				seen[bucket] = map[uint32]float64{}
			}
			seen[bucket][m.State] = float64(n)
		})
	}
	var list []Counts
	for _, bucket := range slices.Sorted(maps.Keys(seen)) {
		low, high := acc.Borders(bucket)
		list = append(list, Counts{[]types.Value{low, high}, g.total(func(m Member) float64 { return seen[bucket][m.State] })})
	}
	return list
}
