package pacing

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever snapshots cost and whenever they are requested, their total cost stays
// within the share, and reaches it where the demand does.
func TestGovernor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0.001, 0.01, 0.5} {
		start := time.Unix(1000, 0)
		g := Governor{Share: share, Start: start}
		now, spent := start, time.Duration(0)
		for now.Sub(start) < 100*time.Second {
			if due := g.Earliest(); due.After(now) {
				now = due
			}
			cost := time.Duration(random.IntN(int(time.Millisecond)))
			now = now.Add(cost)
			g.AddCost(cost, 0, now)
			spent += cost
			if most := share*float64(now.Sub(start)+burst) + float64(time.Millisecond); float64(spent) > most {
				t.Fatalf("%v: %v spent after %v", share, spent, now.Sub(start))
			}
		}
		if float64(spent) < 0.98*share*float64(now.Sub(start)) {
			t.Errorf("%v: only %v of %v spent", share, spent, now.Sub(start))
		}
		// The share of an hour's rest is not saved.
		now = now.Add(time.Hour)
		g.AddCost(0, 0, now)
		before := now
		for spent = 0; !g.Earliest().After(now); spent += time.Millisecond {
			now = now.Add(time.Millisecond)
			g.AddCost(time.Millisecond, 0, now)
		}
		if most := share*float64(now.Sub(before)+2*burst) + float64(time.Millisecond); float64(spent) > most {
			t.Errorf("%v: %v at once after a rest", share, spent)
		}
	}
	free := Governor{Start: time.Unix(1000, 0)}
	free.AddCost(time.Hour, 0, time.Unix(2000, 0))
	if free.Earliest().After(time.Unix(1000, 0)) {
		t.Error("without a limit there is one")
	}
}

// What is done once does not delay snapshots, up to a limit.
func TestCostOfWhatIsDoneOnce(t *testing.T) {
	start := time.Unix(1000, 0)
	g := Governor{Share: 0.01, Start: start}
	for spent := time.Duration(0); spent < MaxOnce; spent += MaxOnce / 4 {
		g.AddCost(MaxOnce/4+time.Millisecond, MaxOnce/4, start)
		if g.Earliest().After(start) {
			t.Fatalf("the next snapshot is at %v after %v", g.Earliest().Sub(start), spent)
		}
	}
	g.AddCost(time.Second, time.Second, start)
	if wait := g.Earliest().Sub(start); wait < 98*time.Second {
		t.Errorf("beyond the limit the next snapshot is at %v", wait)
	}
}
