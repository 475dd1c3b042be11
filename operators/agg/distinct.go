package agg

import (
	"github.com/axiomhq/hyperloglog"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// exactValues is up to how many distinct values of a group COUNT(DISTINCT x)
// and TOPK are exact.
const exactValues = 10_000

// countDistinct is COUNT(DISTINCT x). A group's values are kept until there are too
// many; then they go into a HyperLogLog sketch (2^14 registers, standard error
// 0.8 %), which later values join.
type countDistinct struct {
	pairs
	values   *identities
	sketches map[uint32]*hyperloglog.Sketch
	exact    uint32
	gather   []pair // scratch
}

func newCountDistinct(arg types.Type) *countDistinct {
	return &countDistinct{values: newIdentities(arg), sketches: map[uint32]*hyperloglog.Sketch{}, exact: exactValues}
}

func (a *countDistinct) Reset() {
	a.pairs.Reset()
	clear(a.sketches)
	a.values.reset()
}

func (a *countDistinct) Update(in *fold.Input) {
	words := in.Words
	a.values.number(in.Arg, in.Rows, words)
	if a.values.crowded(len(a.entries)) {
		a.compact(a.values, nil)
		a.values.number(in.Arg, in.Rows, words)
	}
	for _, r := range in.Rows {
		g := in.Groups[r]
		if len(a.sketches) > 0 {
			if s := a.sketches[g]; s != nil {
				s.InsertHash(a.values.hash(words[r]))
				continue
			}
		}
		a.addOne(g, words[r])
		if a.sizes[g] > a.exact {
			a.estimate(g)
		}
	}
}

// estimate goes over to a sketch for a group.
func (a *countDistinct) estimate(g uint32) {
	s := hyperloglog.New14()
	a.gather = a.of(g, a.gather[:0])
	for i := range a.gather {
		s.InsertHash(a.values.hash(a.gather[i].word))
	}
	a.sketches[g] = s
}

func (a *countDistinct) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for _, g := range groups {
		n := int64(a.sizes[g])
		if s := a.sketches[g]; s != nil {
			n = int64(s.Estimate())
		}
		out.Int = append(out.Int, n)
	}
	return nil
}
