package gating

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
	"endoscope/server/flow"
)

// busyWhenAttached is a source with a call each ms while its probes are attached.
type busyWhenAttached struct {
	probes.Source
	attached time.Time // zero: not attached
	before   time.Duration
	passes   int
	used     time.Duration
}

func (s *busyWhenAttached) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c.(type) {
	case probes.Attach:
		s.attached = time.Now()
		s.passes++
	case probes.Detach:
		s.before += time.Since(s.attached)
		s.attached = time.Time{}
	case probes.ProcessorTime:
		r.Used, r.Known = s.used, s.used > 0
	default:
		return probes.Unsupported(c)
	}
	return r, nil
}

func (s *busyWhenAttached) Stats() (st probes.Stats) {
	n := s.before
	if !s.attached.IsZero() {
		n += time.Since(s.attached)
	}
	calls := uint64(n / time.Millisecond)
	st.Events, st.Shut = calls, calls
	for way := range st.Prices {
		st.Prices[way].Shut = 500
	}
	return st
}

// detached returns a gating whose only gated input is detached behind a shut
// gate.
func detached(t *testing.T) (*Gating, *link, *busyWhenAttached) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	src := &busyWhenAttached{}
	e := &link{gate: set.Gate(0)}
	e.Source, e.detached, e.Price = src, true, AttachPrice{Attach: time.Millisecond}
	g := &Gating{Links: []*link{e}, Inputs: []*GatedInput{{source: src, feed: &flow.Feed{Spec: &plan.Acquire{}}}}, mayAttach: always, stop: make(chan struct{})}
	e.counted.at = time.Now().Add(-2 * evaluateEvery)
	return g, e, src
}

// TestCountingPass: the calls of a detached input are counted in passes, and
// their rate refers to the time of the passes only.
func TestCountingPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, e, src := detached(t)
		e.save(1e9, 2*time.Second)
		if err := g.countIfAffordable(e); err != nil {
			t.Fatal(err)
		}
		if src.passes != 1 || !e.IsDetached() || !src.attached.IsZero() {
			t.Fatalf("%d passes; detached: %v", src.passes, e.IsDetached())
		}
		// The next pass is due after a while, and when enough has been saved again.
		e.counted.at = time.Now().Add(-2 * evaluateEvery)
		if err := g.countIfAffordable(e); err != nil || src.passes != 1 {
			t.Fatalf("%d passes, %v", src.passes, err)
		}
		e.save(1e9, 2*time.Second)
		e.counted.at = time.Now()
		if err := g.countIfAffordable(e); err != nil || src.passes != 1 {
			t.Fatalf("%d passes, %v", src.passes, err)
		}
		in := g.Inputs[0]
		in.observe(time.Second, e)
		if r := in.Rate.Value(); r < 900 || r > 1050 {
			t.Errorf("a call each ms, and the rate is %v", r)
		}
		if r := e.countedRate(); !math.IsNaN(r) {
			t.Errorf("nothing was counted since, and the rate is %v", r)
		}
		in.observe(time.Second, e)
		if r := in.Rate.Value(); r < 900 || r > 1050 {
			t.Errorf("without a pass the rate becomes %v", r)
		}
	})
}

// TestCountingPassesAreCheap: there are no passes if they would cost more than
// a small share of the plan, or if the user chose the plan.
func TestCountingPassesAreCheap(t *testing.T) {
	g, e, src := detached(t)
	for name, c := range map[string]struct {
		mode     string
		spending float64
	}{"a plan that costs nothing": {"auto", 1e6}, "a fixed plan": {"right", 1e9}} {
		g.Mode, e.counted.saved = c.mode, 0
		e.save(c.spending, 2*time.Second)
		if err := g.countIfAffordable(e); err != nil || src.passes != 0 {
			t.Errorf("%s: %d passes, %v", name, src.passes, err)
		}
	}
}

// TestPassAtAnOpenGate: probes that are attached when the gate opens stay
// attached.
func TestPassAtAnOpenGate(t *testing.T) {
	g, e, src := detached(t)
	e.save(1e9, 2*time.Second)
	now := clock.Now()
	e.gate.Open(now, now+int64(time.Minute))
	if err := g.countIfAffordable(e); err != nil {
		t.Fatal(err)
	}
	if e.IsDetached() || src.attached.IsZero() {
		t.Error("the gate is open, and the probes are gone")
	}
}

// TestEarlyPass: when a program whose calls are not observed uses more or
// less CPU than before, they are counted as soon as a higher cost permits it,
// and the result is used at once.
func TestEarlyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, e, src := detached(t)
		in := g.Inputs[0]
		for range 10 {
			in.Rate.Observe(20_000, time.Second)
		}
		src.used = time.Second
		uses := func(share float64) (early, changed bool) {
			g.evaluations++
			changed = in.observe(time.Second, e)
			src.used += time.Duration(share * float64(time.Second))
			if early = e.watch(time.Second, g.evaluations); early {
				in.Rate.Doubt()
			}
			return early, changed
		}
		// Its usage while it was probed is not its usage without probes.
		for i, share := range []float64{0.9, 0.4, 0.5, 0.4, 0.45} {
			if early, changed := uses(share); early || changed {
				t.Fatalf("second %d, with %v of a CPU: early %v, changed %v", i, share, early, changed)
			}
		}
		e.save(5e7, time.Second) // a third of the cost of a pass
		if err := g.countIfAffordable(e); err != nil || src.passes != 0 {
			t.Fatalf("%d passes, %v", src.passes, err)
		}
		if early, _ := uses(0.05); !early {
			t.Fatal("it uses a tenth of what it did, and nothing happens")
		}
		if err := g.countIfAffordable(e); err != nil || src.passes != 1 {
			t.Fatalf("%d passes, %v", src.passes, err)
		}
		if _, changed := uses(0.05); !changed {
			t.Error("the pass found another rate, and that is no change")
		}
		if r := in.Rate.Value(); r < 900 || r > 1050 {
			t.Errorf("a call each ms, and the rate is %v", r)
		}
		if e.counted.early {
			t.Error("it hurries still")
		}
	})
}

// TestNoEarlyPass: calls that are observed need no pass.
func TestNoEarlyPass(t *testing.T) {
	_, e, src := detached(t)
	e.detached = false
	for i := range 6 {
		src.used += time.Second >> (6 * (i / 4))
		if e.watch(time.Second, i+1) {
			t.Errorf("second %d: hurried", i)
		}
	}
}

func always() bool { return true }
