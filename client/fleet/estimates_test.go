package fleet

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

const budgetStatement = "SELECT function_name, COUNT(*), AVG(duration) FROM function_duration GROUP BY function_name WITHIN OVERHEAD 1%"

// program is what happens at a host: when function f is called, in seconds, and how long the
// calls take. rate changes with the time.
type program struct {
	seconds, period, slice float64
	rate                   func(r *rand.Rand) func(t float64) float64
	most                   float64
	took                   float64 // the median
}

// programs are those of three hosts: steady, on and off, and slower and slower. They differ in
// all that a union of them could confuse.
var programs = []program{
	{30, 0.1, 0.002, func(*rand.Rand) func(float64) float64 { return func(float64) float64 { return 400 } }, 400, 1e6},
	{30, 0.15, 0.004, func(r *rand.Rand) func(float64) float64 {
		phase := 4 * r.Float64()
		return func(t float64) float64 {
			if math.Mod(t+phase, 4) < 1 {
				return 2000
			}
			return 20
		}
	}, 2000, 3e5},
	{20, 0.05, 0.001, func(*rand.Rand) func(float64) float64 { return func(t float64) float64 { return 900 - 40*t } }, 900, 4e6},
}

// drawn is what a host has seen of a program in slices, and the truth.
type drawn struct {
	calls, sum float64 // in all
	n          [plan.Replicates]int64
	took       [plan.Replicates]int64
	seen       [plan.Replicates]float64
}

func (p *program) draw(r *rand.Rand) (d drawn) {
	rate := p.rate(r)
	number, from := -1, 0.0
	for t := 0.0; ; {
		t += r.ExpFloat64() / p.most
		for number < int(t/p.period) && number < int(p.seconds/p.period+0.5)-1 {
			number++
			from = (float64(number) + r.Float64()*(1-p.slice/p.period)) * p.period
			d.seen[number%plan.Replicates] += p.slice
		}
		if t >= p.seconds {
			return d
		}
		if r.Float64()*p.most >= rate(t) {
			continue
		}
		took := math.Round(p.took * math.Exp(0.7*r.NormFloat64()))
		d.calls, d.sum = d.calls+1, d.sum+took
		if from <= t && t < from+p.slice {
			d.n[number%plan.Replicates]++
			d.took[number%plan.Replicates] += int64(took)
		}
	}
}

// budgetHost returns a host that sends what it has drawn of f, and g, of which it has seen all
// calls. Its places have the same numbers as those of the others.
func budgetHost(name string, p *program, d *drawn, g int64) *scripted {
	h := newScripted(name)
	kinds := []types.Type{types.Timestamp, types.Varchar}
	for range 12 {
		kinds = append(kinds, types.Bigint)
	}
	for _, k := range kinds {
		h.cols = append(h.cols, wire.Column{Type: k})
	}
	b := batch.New(kinds)
	add := func(function string, place, replicate, n, took int64, hidden ...int64) {
		row := []types.Value{types.Time(0), types.Str(function)}
		for _, v := range append([]int64{place, replicate, n, took, 0, n, n}, hidden...) {
			row = append(row, types.Int(v))
		}
		b.AppendRow(row...)
	}
	const ns = 1e9
	add("f", 0, plan.ExactReplicate, 0, 0, 0, int64(p.seconds*ns), 0, 0, 0)
	for r := range plan.Replicates {
		add("f", 0, int64(r), d.n[r], d.took[r], int64(d.seen[r]*ns), 0, 0, 0, 0)
	}
	add("g", 1, plan.ExactReplicate, g, 7*g, 0, 0, 0, 0, 0)
	h.send(wire.Event{Kind: wire.Rows, Batch: b}, flush)
	h.end()
	return h
}

// estimates are the rows of a result, by function.
func estimates(t testing.TB, r wire.Result) map[string][]types.Value {
	t.Helper()
	rows := map[string][]types.Value{}
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			var row []types.Value
			for c := range ev.Batch.Cols {
				row = append(row, ev.Batch.Cols[c].Value(ev.Batch.Row(i)))
			}
			rows[row[0].S] = row
		}
		ev.Batch.Release()
	}
}

// number returns a value as a number; NULL is none.
func number(v types.Value, none float64) float64 {
	switch {
	case v.IsNull:
		return none
	case v.Type == types.Double:
		return v.F
	}
	return float64(v.I)
}

// TestEstimatesOfHosts: the intervals that are merged of several hosts contain what is true of
// all of them in as many runs as they promise. Seeds are fixed: the counts are the same in each
// run.
func TestEstimatesOfHosts(t *testing.T) {
	const least = 0.93
	r := rand.New(rand.NewPCG(3, 4))
	runs := testenv.Times(200)
	covered, width := [2]int{}, [2]float64{}
	for range runs {
		var hosts []*scripted
		var calls, sum float64
		for i := range programs {
			d := programs[i].draw(r)
			calls, sum = calls+d.calls, sum+d.sum
			hosts = append(hosts, budgetHost(string(rune('a'+i)), &programs[i], &d, int64(100+i)))
		}
		res := results(t, sessionOf(hosts...), budgetStatement)
		rows := estimates(t, res)
		for _, n := range res.Summary().Notes {
			if strings.Contains(n, "too few slices") {
				t.Errorf("the footer says %q", n)
			}
		}
		if err := res.Close(); err != nil {
			t.Fatal(err)
		}
		if g := rows["g"]; g[1].I != 303 || g[3].I != 303 || g[4].I != 303 || g[2].I != 7 || g[5].I != 7 || g[6].I != 7 {
			t.Fatalf("what all hosts have seen completely is %v", g)
		}
		f := rows["f"]
		for i, truth := range []float64{calls, sum / calls} {
			low, high := number(f[3+2*i], math.Inf(-1)), number(f[4+2*i], math.Inf(1))
			if low <= truth && truth <= high {
				covered[i]++
			}
			width[i] += (high - low) / 2 / truth / float64(runs)
		}
	}
	for i, what := range []string{"count", "average"} {
		t.Logf("%s: %d of %d intervals contain the truth, half of the width %.1f %% on average", what, covered[i], runs, 100*width[i])
		n := float64(runs)
		if enough := least*n - 2*math.Sqrt(least*(1-least)*n); float64(covered[i]) < enough {
			t.Errorf("%s: %d of %d intervals contain the truth, too few for %.0f %%", what, covered[i], runs, 100*least)
		}
		if width[i] > 0.5 {
			t.Errorf("%s: the intervals are too wide to say anything", what)
		}
	}
}

// TestHostsWithoutEstimates: a host that has had too few slices leaves a lower bound, and is
// named.
func TestHostsWithoutEstimates(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b := programs[0].draw(r), programs[1].draw(r)
	clear(b.n[:])
	clear(b.took[:])
	clear(b.seen[:])
	res := results(t, sessionOf(budgetHost("a", &programs[0], &a, 1), budgetHost("b", &programs[1], &b, 2)), budgetStatement)
	rows := estimates(t, res)
	if f := rows["f"]; f[3].IsNull || f[3].I <= 0 || !f[4].IsNull {
		t.Errorf("the bounds are %v", f)
	}
	if g := rows["g"]; g[1].I != 3 || g[4].I != 3 {
		t.Errorf("what both have seen is %v", g)
	}
	if notes := res.Summary().Notes; !slices.Contains(notes, "hosts with too few slices for an interval: b (1 of 1 functions in slices)") {
		t.Errorf("the footer says %q", notes)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
}

// TestEstimatesOfEqualPlaces: places of two hosts are different, though they have one number.
func TestEstimatesOfEqualPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d := programs[0].draw(r)
	one := estimates(t, results(t, sessionOf(budgetHost("a", &programs[0], &d, 1)), budgetStatement))["f"]
	two := estimates(t, results(t, sessionOf(budgetHost("a", &programs[0], &d, 1), budgetHost("b", &programs[0], &d, 1)), budgetStatement))["f"]
	if got, want := number(two[1], 0), 2*number(one[1], 0); math.Abs(got-want) > 2 {
		t.Errorf("twice %v calls are %v", one, two)
	}
}
