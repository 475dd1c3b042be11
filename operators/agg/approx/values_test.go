package approx

import (
	"math"
	"testing"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// valued returns a group of which a tenth was seen: in each replicate 10 calls with the value 3
// and 30 with 8, and in one of them 1 with 5. Calls without a value count for none.
func valued() (*Group, numbers) {
	p := &Places{}
	place := p.Number(42)
	p.SetWhole(place, 1600, 0, 0)
	g := &Group{Places: p, Confidence: 0.95}
	var states numbers
	add := func(replicate int, v types.Value, n float64) {
		g.Members = append(g.Members, Member{State: uint32(len(states)), Place: place, Replicate: replicate, Values: []types.Value{v}})
		states = append(states, [3]float64{n})
	}
	for r := range plan.Replicates {
		p.AddSeen(place, r, 10, 0)
		add(r, types.Int(8), 30)
		add(r, types.Int(3), 10)
		add(r, types.NullOf(types.Bigint), 7)
	}
	add(2, types.Int(5), 1)
	add(2, types.Int(6), 0)
	return g, states
}

func TestByValue(t *testing.T) {
	g, states := valued()
	if r := g.Distinct(0, states); r.Estimate != 3 || r.Low != 3 || !math.IsInf(r.High, 1) {
		t.Errorf("the number of different values is %v", r)
	}
	top := g.Top(0, 2, states)
	if len(top) != 2 || top[0].Of[0].I != 8 || top[1].Of[0].I != 3 || top[0].Count.Estimate != 4800 || top[1].Count.Estimate != 1600 {
		t.Errorf("the most frequent values are %v", top)
	}
	if c := top[0].Count; c.Low >= 4800 || c.High <= 4800 || math.IsInf(c.High, 1) {
		t.Errorf("the most frequent value has %v", c)
	}
	if all := g.Top(0, 9, states); len(all) != 3 || !math.IsInf(all[2].Count.High, 1) {
		t.Errorf("a value that was seen once has %v", all)
	}
}

// TestByValueOfAll: of calls that were all seen there is no doubt.
func TestByValueOfAll(t *testing.T) {
	g, states := valued()
	g.Places = &Places{}
	g.Places.Number(1)
	for i := range g.Members {
		g.Members[i].Replicate = plan.ExactReplicate
	}
	if r := g.Distinct(0, states); r.Interval != estimate.Exact(3) {
		t.Errorf("the number of different values is %v", r)
	}
	if top := g.Top(0, 1, states); len(top) != 1 || top[0].Count != estimate.Exact(480) {
		t.Errorf("the most frequent value is %v", top)
	}
}

// times is an accumulator of the times of values.
type times struct {
	fold.Accumulator
	at []int64 // negative: no value
}

func (x times) When(g uint32) (int64, bool) { return x.at[g], x.at[g] >= 0 }

func TestEdge(t *testing.T) {
	g, _ := sliced(1, 1, 1)
	at := make([]int64, len(g.Members))
	for i := range at {
		at[i] = -1
	}
	if _, found := g.Edge(times{at: at}, true); found {
		t.Error("no value has a time")
	}
	at[3], at[7], at[9] = 50, 20, 90
	if s, found := g.Edge(times{at: at}, false); !found || s != 7 {
		t.Errorf("the earliest is %d", s)
	}
	if s, found := g.Edge(times{at: at}, true); !found || s != 9 {
		t.Errorf("the latest is %d", s)
	}
}
