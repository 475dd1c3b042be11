package stack

import (
	"context"
	"endoscope/probes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// However much snapshots cost and whenever they are asked for, all together cost
// no more than their share, and as much where as much is wanted.
func TestGovernor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0.001, 0.01, 0.5} {
		start := time.Unix(1000, 0)
		g := governor{share: share, start: start}
		now, spent := start, time.Duration(0)
		for now.Sub(start) < 100*time.Second {
			if due := g.due(); due.After(now) {
				now = due
			}
			cost := time.Duration(random.IntN(int(time.Millisecond)))
			now = now.Add(cost)
			g.spend(cost, now)
			spent += cost
			if most := share*float64(now.Sub(start)+burst) + float64(time.Millisecond); float64(spent) > most {
				t.Fatalf("%v: %v spent after %v", share, spent, now.Sub(start))
			}
		}
		if float64(spent) < 0.98*share*float64(now.Sub(start)) {
			t.Errorf("%v: only %v of %v spent", share, spent, now.Sub(start))
		}
		// After a rest of an hour it does not make up for that.
		now = now.Add(time.Hour)
		g.spend(0, now)
		before := now
		for spent = 0; !g.due().After(now); spent += time.Millisecond {
			now = now.Add(time.Millisecond)
			g.spend(time.Millisecond, now)
		}
		if most := share*float64(now.Sub(before)+2*burst) + float64(time.Millisecond); float64(spent) > most {
			t.Errorf("%v: %v at once after a rest", share, spent)
		}
	}
	free := governor{start: time.Unix(1000, 0)}
	free.spend(time.Hour, time.Unix(2000, 0))
	if free.due().After(time.Unix(1000, 0)) {
		t.Error("without a limit there is one")
	}
}

// A rate that would cost more than was allowed is not kept, which is said.
func TestOverhead(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, crowd, "-O2", "-pthread", "-fno-optimize-sibling-calls"), "100", "20")
	r.number(t)
	spec := specification(plan.Target{PIDs: []int{r.pid}}, time.Millisecond)
	spec.Settings.StackOverhead = 0.001
	s, err := provider.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if text := s.Info().Sites[0].Function; text != "threads of the target, every 1ms if that costs no more than 0.1% of a CPU" {
		t.Errorf("before: %s", text)
	}
	got := newRecord()
	began := time.Now()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	testenv.UntilNil(t, "it samples more rarely", func() error {
		text := s.Info().Sites[0].Function
		if strings.HasPrefix(text, "threads of the target, every ") && strings.HasSuffix(text, " instead of 1ms: 0.1% of a CPU") {
			return nil
		}
		return errors.New(text)
	})
	// Ticks are lost only while others have the processors, once a snapshot at most;
	// of those left out there are a hundred for each snapshot.
	testenv.Until(t, "most ticks are left out, and not lost", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.counts[leftOut] > 2*got.lost[overrun]
	})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	<-got.ended
	rate := false
	for cause := range got.counts {
		rate = rate || strings.HasPrefix(cause, "snapshots taken, one every ")
	}
	if !rate {
		t.Errorf("%v, lost %v", got.counts, got.lost)
	}
	// The share is 1 ms of a second, saved up 2, and a snapshot takes 0.1.
	if n, most := got.len()/121, 100+50*int(time.Since(began).Seconds()); n > most {
		t.Errorf("%d snapshots, at most %d were expected", n, most)
	}
}
