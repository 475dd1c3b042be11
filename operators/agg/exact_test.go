package agg

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// drawDouble draws doubles of any size, mostly those in the range of a fixedSum.
func drawDouble(t *rapid.T) float64 {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return rapid.Float64().Draw(t, "any")
	case 1:
		return rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64, 1 << 63, -1 << 63,
			math.Nextafter(1<<63, 0), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-76, 0x1p-77, 0x1p-128,
			0x1p-129, 1, -1, 0.1, math.Pi}).Draw(t, "special")
	case 2:
		return float64(rapid.Int64().Draw(t, "integer"))
	}
	return math.Ldexp(rapid.Float64Range(-1, 1).Draw(t, "x"), rapid.IntRange(-80, 62).Draw(t, "e"))
}

// doubleMoments returns the state of STDDEV of DOUBLE for one group.
func doubleMoments(xs []float64) *varianceFloat {
	a := newVariance(types.Double, false).(*varianceFloat)
	a.Grow(1)
	for _, x := range xs {
		a.add(0, x)
	}
	return a
}

// The results are the nearest doubles to the exact ones.
func TestExactSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var xs []float64
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			xs = append(xs, drawDouble(t))
			if rapid.IntRange(0, 4).Draw(t, "again") == 0 {
				xs = append(xs, -xs[len(xs)-1])
			}
		}
		n := int64(len(xs))
		sum, squares := new(big.Rat), new(big.Rat)
		for _, x := range xs {
			r := new(big.Rat).SetFloat64(x)
			sum.Add(sum, r)
			squares.Add(squares, new(big.Rat).Mul(r, r))
		}
		s := doubleMoments(xs)
		m, wide := &s.state[0], s.wide[0]
		if want, _ := sum.Float64(); roundedSum(&m.sum, wide) != want {
			t.Fatalf("sum of %g is %g, not %g", xs, roundedSum(&m.sum, wide), want)
		}
		of := big.NewRat(n, 1)
		if want, _ := new(big.Rat).Quo(sum, of).Float64(); roundedMean(&m.sum, wide, n) != want {
			t.Fatalf("mean of %g is %g, not %g", xs, roundedMean(&m.sum, wide, n), want)
		}
		if n < 2 {
			return
		}
		squares.Mul(squares, of)
		squares.Sub(squares, new(big.Rat).Mul(sum, sum))
		squares.Quo(squares, of.Mul(of, big.NewRat(n-1, 1)))
		if want, _ := squares.Float64(); roundedVariance(&m.sum, &m.sq, wide, n) != want {
			t.Fatalf("variance of %g is %g, not %g", xs, roundedVariance(&m.sum, &m.sq, wide, n), want)
		}
	})
}

// What is no number wins: NaN over all, and infinities of both signs are NaN.
func TestExactSumsOfInfinities(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct{ x, y, sum float64 }{
		{inf, 1, inf}, {1, -inf, -inf}, {inf, inf, inf}, {inf, -inf, nan}, {nan, 1, nan}, {inf, nan, nan},
	} {
		s := doubleMoments([]float64{c.x, c.y})
		m, wide := &s.state[0], s.wide[0]
		if got := roundedSum(&m.sum, wide); got != c.sum && (got == got || c.sum == c.sum) {
			t.Errorf("%g + %g = %g", c.x, c.y, got)
		}
		if v := roundedVariance(&m.sum, &m.sq, wide, 2); v == v {
			t.Errorf("variance of %g and %g is %g", c.x, c.y, v)
		}
	}
}

// A decoded state equals the encoded one, and invalid bytes are refused.
func TestWideDoubleState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, back wideDouble
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			d.add(drawDouble(t), rapid.Bool().Draw(t, "square"))
		}
		state := d.encode(nil)
		if !back.decode(state) || back != d {
			t.Fatalf("%v became %v", d, back)
		}
		var other wideDouble
		if cut := state[:rapid.IntRange(0, len(state)-1).Draw(t, "cut")]; other.decode(cut) {
			t.Fatalf("%d of %d bytes are a state", len(cut), len(state))
		}
		other.decode(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	})
}

// plainSum is SUM of DOUBLE without exactness: the baseline for benchmarks of the
// exact one.
type plainSum struct{ fold.Lane }

func (a plainSum) update(in *fold.Input) {
	x := in.Arg.Float
	for _, r := range in.Rows {
		w := a.Words(in.Groups[r])[:2]
		w[0] = math.Float64bits(math.Float64frombits(w[0]) + x[r])
		w[1]++
	}
}

// plainVariance is Welford's algorithm, which STDDEV of DOUBLE was.
type plainVariance []struct {
	n        int64
	mean, m2 float64
}

func (a plainVariance) update(in *fold.Input) {
	x := in.Arg.Float
	for _, r := range in.Rows {
		s := &a[in.Groups[r]]
		s.n++
		d := x[r] - s.mean
		s.mean += d / float64(s.n)
		s.m2 += d * (x[r] - s.mean)
	}
}

// BenchmarkSumDouble folds a batch of doubles into one, 100 and 10,000 groups; the sum
// of 10,000 groups has no lanes. Doubles of 100 octaves are mostly outside a window.
func BenchmarkSumDouble(b *testing.B) {
	for _, c := range []struct {
		name            string
		groups, octaves int
	}{{"one group", 1, 20}, {"100 groups", 100, 20}, {"10000 groups", 10_000, 20}, {"100 groups, 100 octaves", 100, 100}} {
		benchmarkSum(b, c.name, c.groups, c.octaves)
	}
}

func benchmarkSum(b *testing.B, name string, groups, octaves int) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := batch.Column{Type: types.Double}
	in := &fold.Input{Alone: groups == 1, Arg: &c}
	for i := range batch.MaxRows {
		c.Float = append(c.Float, math.Ldexp(rng.Float64(), rng.IntN(octaves)-max(octaves-60, 0)))
		in.Rows = append(in.Rows, uint16(i))
		in.Groups = append(in.Groups, uint32(rng.IntN(groups)))
	}
	run := func(b *testing.B, update func(*fold.Input)) {
		b.ReportAllocs()
		for b.Loop() {
			update(in)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch.MaxRows, "ns/row")
	}
	b.Run("plain, "+name, func(b *testing.B) {
		l := &fold.Lanes{}
		a := plainSum{fold.Lane{Lanes: l, At: l.Reserve(2)}}
		l.Grow(groups)
		run(b, a.update)
	})
	b.Run("exact, "+name, func(b *testing.B) {
		l := &fold.Lanes{}
		a := newFloatSum(l)
		l.Grow(groups)
		a.Grow(groups)
		run(b, a.Update)
	})
	b.Run("plain variance, "+name, func(b *testing.B) { run(b, make(plainVariance, groups).update) })
	b.Run("exact variance, "+name, func(b *testing.B) {
		a := newVariance(types.Double, false)
		a.Grow(groups)
		run(b, a.Update)
	})
}
