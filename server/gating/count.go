package gating

import (
	"context"
	"math"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
)

// counted is what counting passes found: while an input is detached nobody sees
// how often it is called, on which the choice of plan rests. In a pass its probes
// are attached behind their shut gate for a moment.
type counted struct {
	events uint64
	time   time.Duration
	at     time.Time // of the last pass
	saved  float64   // ns that the next may cost, of what the plan has cost since
	// hurried says that the program's load has changed: the next may cost hurry
	// times as much.
	hurried bool
}

// usage is how much of a CPU the program uses under the plan in force: what is
// probed uses more.
type usage struct {
	cost.Mean
	was   time.Duration // at the last evaluation
	known bool
}

const (
	// A pass takes so long that the calls which it counts cost about as much as
	// to attach and detach does, but no less than countLeast, which tells bursts
	// from a load, and no more than countMost.
	countLeast, countMost = 10 * time.Millisecond, 50 * time.Millisecond
	// countShare is what passes may cost, as a share of what the plan costs.
	countShare = 0.01
	// hurry is how much more a pass may cost when something has happened.
	hurry = 5
)

// watch looks at the processor time that the program has used in d. If that is
// another than before, and nobody sees the calls, it has them counted soon, and
// reports so. The plan has been in force for so many evaluations.
func (e *edge) watch(d time.Duration, evaluations int) (hurried bool) {
	u := &e.used
	was, knew := u.was, u.known
	r, _ := e.Source.Control(context.Background(), probes.ProcessorTime{})
	if u.was, u.known = r.Used, r.Known; !u.known || !knew || u.was < was {
		u.Mean = cost.Mean{}
		return false
	}
	share := float64(u.was-was) / float64(d)
	if evaluations <= 1 { // some of it was used under the plan before
		u.Mean = cost.Mean{}
		return false
	}
	strays := u.Strays(share)
	if strays {
		u.Mean = cost.Mean{} // once is enough
	}
	u.Observe(share, d)
	if !strays || !e.IsDetached() {
		return false
	}
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	e.counted.hurried = true
	return true
}

// save puts by, for the next pass, a share of what the plan has cost in d.
func (e *edge) save(spending float64, d time.Duration) {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	e.counted.saved += countShare * spending * d.Seconds()
}

// perhapsCount makes a pass over a detached input, if that costs no more than what
// was put by since the last.
func (g *Gating) perhapsCount(e *edge) error {
	if !e.IsDetached() {
		return nil
	}
	took, pays := g.countPays(e)
	if !pays {
		return nil
	}
	e.Flipping.Lock()
	err := e.flipped(false)
	e.Flipping.Unlock()
	if err != nil {
		return err
	}
	before, began := e.Source.Stats(), time.Now()
	select {
	case <-time.After(took):
	case <-g.stop:
		return nil
	}
	after := e.Source.Stats()
	took = time.Since(began)

	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	e.counted.events += after.Events - before.Events
	e.counted.time += took
	e.counted.at, e.counted.saved, e.counted.hurried = time.Now(), 0, false
	if e.gate.Admits(clock.Now()) {
		e.closed = closedTime{}
		return nil // the gate has opened meanwhile: the probes stay
	}
	return e.flipped(true)
}

// countPays reports how long a pass should take, and whether enough was put by
// for it.
func (g *Gating) countPays(e *edge) (took time.Duration, pays bool) {
	g.Mu.Lock()
	rate := g.Inputs[e.GatedInput].Rate.Value()
	choosing := g.Mode == "auto" || g.Mode == ""
	g.Mu.Unlock()
	flip := e.flipCost()
	traps := rate * e.Source.Stats().Prices[plan.AtEntry].Shut // ns per second
	took = countMost
	if traps > 0 {
		took = min(countMost, max(countLeast, time.Duration(flip/traps*1e9)))
	}
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	c := &e.counted
	may := c.saved
	if c.hurried {
		may *= hurry
	}
	return took, choosing && time.Since(c.at) >= evaluateEvery && flip+traps*took.Seconds() <= may
}

// takeCounted is the rate that passes found since it was last asked for; NaN if there was none.
func (e *edge) takeCounted() (rate float64) {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	c := &e.counted
	rate = math.NaN()
	if c.time > 0 {
		rate = float64(c.events) / c.time.Seconds()
	}
	c.events, c.time = 0, 0
	return rate
}
