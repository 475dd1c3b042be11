package approx

import (
	"math"
	"math/rand/v2"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// moment is an accumulator of numbers without results.
type moment struct {
	fold.Accumulator
	numbers
}

var sumAndCount = []plan.Agg{{Fn: "sum", T: types.Duration}, {Fn: "count", Star: true, T: types.Bigint}}

// column is a result of sumAndCount.
func column(i int) plan.Expr { return &plan.Col{Index: i, Name: "x", T: sumAndCount[i].T} }

func call(fn string, t types.Type, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: t}
}

// TestDerived: a ratio is that of the totals, and a product has the uncertainty of its factors.
func TestDerived(t *testing.T) {
	g, states := sliced(50, 100, 3)
	accs := []fold.Accumulator{moment{numbers: states}, moment{numbers: states}}
	ratio := call("/", types.Duration, column(0), column(1))
	if r := g.Derived(ratio, sumAndCount, accs, 0); r.Estimate != 3 || r.Low < 3-1e-9 || r.High > 3+1e-9 {
		t.Errorf("the ratio is %v", r)
	}
	twice := call("*", types.Double, call("to_us", types.Double, column(0)), &plan.Const{V: types.Int(2)})
	if r := g.Derived(twice, sumAndCount, accs, 0); math.Abs(r.Estimate-2*24.3) > 1e-9 || r.Low > r.Estimate || r.High < r.Estimate {
		t.Errorf("the product is %v", r)
	}
	// What is not known of the progress makes a total less certain, and no ratio.
	g.Places.SetWhole(0, 1600, 160, 80)
	if r := g.Derived(ratio, sumAndCount, accs, 0); r.Low < 3-1e-9 || r.High > 3+1e-9 {
		t.Errorf("the ratio is %v", r)
	}
	if r := g.Derived(twice, sumAndCount, accs, 0); r.High < 2*24.3*1.1 || r.Low > 2*24.3*0.96 {
		t.Errorf("the product is %v", r)
	}
	g.Places.SetWhole(0, 1600, 1600, 0)
	if r := g.Derived(twice, sumAndCount, accs, 0); !math.IsInf(r.High, 1) {
		t.Errorf("the program may have stood still: %v", r)
	}
	if r := g.Derived(call("/", types.Duration, column(0), call("-", types.Bigint, column(1), column(1))), sumAndCount, accs, 0); !r.Null {
		t.Errorf("a number divided by 0 is %v", r)
	}
	// Of what is exact, quotients of whole numbers are truncated, as in exact results.
	exact := &Group{Places: &Places{}, Confidence: 0.95, Members: []Member{{Place: 0, Replicate: plan.ExactReplicate}}}
	exact.Places.Number(1)
	accs = []fold.Accumulator{moment{numbers: numbers{{3, 11, 0}}}, moment{numbers: numbers{{3, 11, 0}}}}
	if r := exact.Derived(ratio, sumAndCount, accs, 0); r.Interval != estimate.Exact(3) {
		t.Errorf("11 / 3 is %v", r)
	}
}

// TestDerivedCoverage: the interval of a ratio of sums of two kinds of calls, of which one comes
// in bursts, contains the truth as often as it promises.
func TestDerivedCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	ratio := call("/", types.Double, column(0), column(1))
	runs, covered, width := testenv.Times(400), 0, 0.0
	for range runs {
		const slices, share = 320, 0.02
		p := &Places{}
		place := p.Number(1)
		p.SetWhole(place, slices/share, 0, 0)
		g := &Group{Places: p, Confidence: 0.95}
		sums, counts := make(numbers, plan.Replicates), make(numbers, plan.Replicates)
		var sum, count float64
		for i := range int(slices / share) { // in pieces as long as a slice
			rate := 3.0
			if i/2000%3 == 1 {
				rate = 30
			}
			s, c := 0.0, 0.0
			for range poisson(r, rate) {
				c++
				s += math.Exp(r.NormFloat64()) * rate
			}
			sum, count = sum+s, count+c
			if i%int(1/share) == 17 { // where slices are does not matter to a load that does not know it
				n := i / int(1/share) % plan.Replicates
				p.AddSeen(place, n, 1, 0)
				sums[n] = [3]float64{sums[n][0] + c, sums[n][1] + s, 0}
				counts[n] = [3]float64{counts[n][0] + c, 0, 0}
			}
		}
		for n := range plan.Replicates {
			g.Members = append(g.Members, Member{State: uint32(n), Place: place, Replicate: n})
		}
		x := g.Derived(ratio, sumAndCount, []fold.Accumulator{moment{numbers: sums}, moment{numbers: counts}}, 0)
		if truth := sum / count; x.Low <= truth && truth <= x.High {
			covered++
		}
		width += (x.High - x.Low) / 2 / x.Estimate / float64(runs)
	}
	t.Logf("%d of %d intervals contain the truth, half of the width %.1f %% on average", covered, runs, 100*width)
	const least = 0.93
	n := float64(runs)
	if float64(covered) < least*n-2*math.Sqrt(least*(1-least)*n) || width > 0.3 {
		t.Errorf("%d of %d intervals contain the truth, half of the width %.1f %%", covered, runs, 100*width)
	}
}

// poisson returns a number of independent events whose mean is known.
func poisson(r *rand.Rand, mean float64) (n int) {
	for t := r.ExpFloat64(); t < mean; t += r.ExpFloat64() {
		n++
	}
	return n
}
