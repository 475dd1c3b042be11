package approx

import (
	"math"
	"testing"

	"endoscope/operators/estimate"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// numbers is an accumulator of moments with one state for each member.
type numbers [][3]float64

func (n numbers) Moments(g uint32) (float64, float64, float64) { return n[g][0], n[g][1], n[g][2] }

// sliced returns a group of a place of which a tenth was seen: in each replicate n values of
// v, and exactly m more of them all the time.
func sliced(n, m, v float64) (*Group, numbers) {
	p := &Places{}
	place := p.Number(42)
	p.SetWhole(place, 1600, 0, 0)
	g := &Group{Places: p, Confidence: 0.95}
	var states numbers
	for r := range estimate.Replicates {
		p.AddSeen(place, r, 10, 0)
		g.Members = append(g.Members, Member{State: uint32(len(states)), Place: place, Replicate: r})
		states = append(states, [3]float64{n, n * v, n * v * v})
	}
	g.Members = append(g.Members, Member{State: uint32(len(states)), Place: place, Replicate: plan.ExactReplicate})
	return g, append(states, [3]float64{m, m * v, m * v * v})
}

func TestGroup(t *testing.T) {
	g, states := sliced(50, 100, 3)
	for fn, want := range map[string]float64{"count": 8100, "sum": 24300, "avg": 3, "variance": 0, "rate": 81} {
		r := g.moments(fn, states, 100e9)
		if math.Abs(r.Estimate-want) > 1e-9*want+1e-9 || r.Low > want || r.High < want || r.Null || math.IsInf(r.High, 0) {
			t.Errorf("%s is %v, want %g", fn, r, want)
		}
	}
	if g.Exact() || math.Abs(g.Share(states)-900.0/8100) > 1e-9 || g.Events(states) != 900 {
		t.Errorf("exact: %v, share %g of %g events", g.Exact(), g.Share(states), g.Events(states))
	}

	// 20 calls did not end in time, each of which stands for 10.
	without := g.moments("count", states, 0)
	g.Places.AddSeen(0, 3, 0, 15)
	g.Places.AddSeen(0, 4, 0, 5)
	if r := g.moments("count", states, 0); r.Low != without.Low || r.Estimate != without.Estimate || r.High < without.High+200 || r.High > without.High+1000 {
		t.Errorf("with calls missing that took long: %v, without %v", r, without)
	}
	for fn, low := range map[string]float64{"sum": g.moments("sum", states, 0).Low, "avg": math.Inf(-1)} {
		if r := g.moments(fn, states, 0); !math.IsInf(r.High, 1) || r.Low != low || fn == "sum" && r.Low < 900*3 {
			t.Errorf("%s with calls missing that took long: %v", fn, r)
		}
	}
}

// TestGroupWithoutSlices: what was seen all the time is exact, unless some of the time is
// missing, or another place may belong to the group.
func TestGroupWithoutSlices(t *testing.T) {
	p := &Places{}
	place := p.Number(1)
	g := &Group{Places: p, Confidence: 0.95, Members: []Member{{Place: place, Replicate: plan.ExactReplicate}}}
	states := numbers{{7, 70, 700}}
	if r := g.moments("count", states, 0); !g.Exact() || r.Interval != estimate.Exact(7) {
		t.Errorf("exact %v: %v", g.Exact(), r)
	}
	p.SetWhole(place, 10, 0, 0)
	if r := g.moments("count", states, 0); g.Exact() || r.Low != 7 || !math.IsInf(r.High, 1) {
		t.Errorf("exact %v: %v", g.Exact(), r)
	}

	other := &Places{Loose: true}
	g.Places, g.Members[0].Place = other, other.Number(1)
	if !g.Exact() {
		t.Error("not exact")
	}
	other.SetWhole(other.Number(2), 10, 0, 0)
	if g.Exact() {
		t.Error("exact, although another place may belong to the group")
	}
}

// values is an accumulator of the values 1 to 100 in each state.
type values struct{}

func (values) Values(_ uint32, visit func(v float64, n int64)) {
	for v := range 100 {
		visit(float64(v+1), 1)
	}
}

func TestQuantile(t *testing.T) {
	g, _ := sliced(1, 1, 1)
	f := &plan.Agg{Fn: "quantile", Params: []types.Value{types.Float(0.9)}}
	r := g.quantile(f, values{})
	if r.Estimate != 90 || r.Low > 90 || r.High < 90 || r.High > 95 || r.Low < 85 {
		t.Errorf("the 0.9-quantile of 1 to 100 is %v", r)
	}
	if r := g.quantile(&plan.Agg{Fn: "median"}, values{}); r.Estimate != 50 {
		t.Errorf("the median of 1 to 100 is %v", r)
	}
	f.Params[0] = types.Float(0)
	if r := g.quantile(f, values{}); r.Estimate != 1 {
		t.Errorf("the smallest of 1 to 100 is %v", r)
	}
}

// buckets is a histogram of the values 0 and 1, of which each state but the last has 1 more.
type buckets int

func (b buckets) Buckets(g uint32, visit func(bucket, n int64)) {
	visit(0, 10)
	if int(g) < int(b) {
		visit(1, 20)
	}
}

func (buckets) Borders(i int64) (low, high types.Value) { return types.Int(i), types.Int(i + 1) }

func TestBuckets(t *testing.T) {
	g, states := sliced(50, 10, 1)
	list := g.Buckets(buckets(len(states) - 1))
	if len(list) != 2 {
		t.Fatalf("%d buckets: %v", len(list), list)
	}
	// A tenth was seen, in 16 replicates; what was seen all the time counts once.
	for i, want := range []float64{16*10*10 + 10, 16 * 20 * 10} {
		b := list[i]
		if b.Of[0].I != int64(i) || b.Of[1].I != int64(i+1) || math.Abs(b.Count.Estimate-want) > 1e-9*want || !(b.Count.Low < want && want < b.Count.High) {
			t.Errorf("bucket %d is %v, want %g", i, b, want)
		}
	}
}
