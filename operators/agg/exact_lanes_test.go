package agg

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// drawDoubles draws rows of some groups, whose values are mostly of similar size.
func drawDoubles(t *rapid.T, groups int) *fold.Input {
	c := &batch.Column{Type: types.Double}
	in := &fold.Input{Arg: c, Groups: make([]uint32, batch.MaxRows)}
	scale := rapid.IntRange(-90, 70).Draw(t, "scale")
	near := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) float64 {
			m := rapid.OneOf(rapid.Uint64Range(1<<52, 1<<53-1), rapid.Just[uint64](1<<53-1), rapid.Just[uint64](1<<52),
				rapid.Just[uint64](1<<52+1)).Draw(t, "m")
			x := math.Ldexp(float64(m), scale-52+rapid.IntRange(-sumOctaves, 1).Draw(t, "e"))
			if rapid.Bool().Draw(t, "negative") {
				x = -x
			}
			return x
		}),
		rapid.Just(0.0),
		rapid.Just(math.Ldexp(1.5, scale)))
	some := rapid.SliceOfN(near, 1, 20).Draw(t, "values")
	if rapid.Bool().Draw(t, "others") {
		some = append(some, drawDouble(t))
	}
	// A batch repeats them, so that many are as large as can be.
	step := rapid.IntRange(1, 3).Draw(t, "step")
	for r := 0; r < batch.MaxRows; r++ {
		c.Float = append(c.Float, some[r%len(some)])
		in.Groups[r] = uint32(r / len(some) % groups)
		if r%step == 0 {
			in.Rows = append(in.Rows, uint16(r))
		}
	}
	return in
}

// Sums computed in lanes equal those added to the fixed-point numbers value by
// value, to the last bit, for all values and windows.
func TestLanesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 4).Draw(t, "groups")
		l := &fold.Lanes{}
		sum, v := newFloatSum(l), doubleMoments(nil)
		want := doubleMoments(nil)
		grow := func(n int) {
			l.Grow(n)
			sum.Grow(n)
			v.Grow(n)
			want.Grow(n)
		}
		grow(groups)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			in := drawDoubles(t, groups)
			for range rapid.SampledFrom([]int{1, 2, 9}).Draw(t, "times") {
				sum.Update(in)
				v.Update(in)
				for _, r := range in.Rows {
					want.add(in.Groups[r], in.Arg.Float[r])
				}
			}
			switch rapid.IntRange(0, 9).Draw(t, "between") {
			case 0, 1, 2:
				sum.settle()
				v.settle()
			case 3:
				grow(maxLaneGroups + 1)
			case 4:
				l.Reset()
				sum.Reset()
				v.Reset()
				want.Reset()
				grow(groups)
			}
		}
		sum.settle()
		v.settle()
		for g := range uint32(groups) {
			m := want.state[g]
			if *sum.sum(g) != m.sum || sum.n(g) != m.n {
				t.Fatalf("the sum of group %d is %x of %d values, not %x of %d", g, *sum.sum(g), sum.n(g), m.sum, m.n)
			}
			if v.state[g] != m {
				t.Fatalf("the moments of group %d are %x, not %x", g, v.state[g], m)
			}
			for _, wide := range []wideDoubles{sum.wide, v.wide} {
				if (wide[g] == nil) != (want.wide[g] == nil) || wide[g] != nil && wide[g].sum != want.wide[g].sum {
					t.Fatalf("the wide sum of group %d differs", g)
				}
			}
		}
	})
}

// Lanes have room for the maximum number of values of the largest magnitude before
// carries are propagated, and for the digits of the smallest ones.
func TestLanesHoldExtremes(t *testing.T) {
	for _, octaves := range []int{sumOctaves, varianceOctaves} {
		for _, top := range []int{octaves + 52 + fixedUnit, 0, maxTop} {
			largest := math.Nextafter(math.Ldexp(1, top), 0)
			smallest := math.Nextafter(math.Ldexp(1, top-octaves), math.Inf(1))
			for _, x := range []float64{largest, -largest, smallest, -smallest} {
				t.Run(fmt.Sprint(octaves, top, x), func(t *testing.T) { lanesHold(t, octaves, top, x) })
			}
		}
	}
}

func lanesHold(t *testing.T, octaves, top int, x float64) {
	c := &batch.Column{Type: types.Double}
	in := &fold.Input{Arg: c, Groups: make([]uint32, batch.MaxRows)}
	for r := range batch.MaxRows {
		c.Float = append(c.Float, x)
		in.Rows = append(in.Rows, uint16(r))
	}
	l := &fold.Lanes{}
	sum, v, want := newFloatSum(l), doubleMoments(nil), doubleMoments(nil)
	l.Grow(1)
	sum.Grow(1)
	add, most, moments := sum.lanes.add, sumRows, false
	sum.lanes.set(top)
	if octaves == varianceOctaves {
		v.lanes.set(top)
		add, most, moments = v.lanes.add, varianceRows, true
	}
	for range most / batch.MaxRows {
		if n := add(in); n > 0 {
			t.Fatalf("%d of the values are outside the window", n)
		}
		for range batch.MaxRows {
			want.add(0, x)
		}
	}
	sum.settle()
	v.settle()
	if m := want.state[0]; moments && v.state[0] != m || !moments && *sum.sum(0) != m.sum {
		t.Errorf("%x and %x are not %x", *sum.sum(0), v.state[0], m)
	}
}
