package agg

import (
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Bucket returns the number of the bucket of v in the state of f, a quantile or a
// histogram.
func Bucket(f *plan.Agg, v types.Value) int64 {
	if f.Fn != "histogram" {
		return bucketOf(float64(v.I))
	}
	h, err := newHistogram(f, v.Type)
	if err != nil {
		panic(err) // the plan was built before
	}
	c := batch.Column{Type: v.Type, Int: []int64{v.I}}
	var word [1]uint64
	h.(*histogram).number(&c, []uint16{0}, word[:])
	return int64(word[0])
}
