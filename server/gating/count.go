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

// counted holds the results of counting passes. While an input is detached its
// rate of calls, on which the choice of plan depends, is not observed. A pass
// attaches its probes for a moment, behind their shut gate.
type counted struct {
	events uint64
	time   time.Duration
	at     time.Time // of the last pass
	saved  float64   // ns that the next pass may cost, saved from the plan's cost since
	// early is set when the program's load has changed: the next pass may
	// cost `hurry` times as much.
	early bool
}

// usage is the share of a CPU that the program uses under the current plan:
// probed code uses more.
type usage struct {
	cost.Mean
	was   time.Duration // at the last evaluation
	known bool
}

const (
	// A pass takes so long that the calls it counts cost about as much as
	// Attaching and detaching; at least countLeast, to distinguish bursts from
	// a steady load, and at most countMost.
	countLeast, countMost = 10 * time.Millisecond, 50 * time.Millisecond
	// countShare is the cost of passes, at most, as a share of the plan's cost.
	countShare = 0.01
	// earlyFactor is the factor by which a pass may cost more when the load has
	// changed.
	earlyFactor = 5
)

// watch reads the processor time that the program has used in d. If it has
// changed and the calls are not observed, watch allows an early counting pass
// and returns true. evaluations is the number of evaluations since the plan was
// put into force.
func (e *link) watch(d time.Duration, evaluations int) (early bool) {
	u := &e.used
	was, knew := u.was, u.known
	r, _ := e.Source.Control(context.Background(), probes.ProcessorTime{})
	if u.was, u.known = r.Used, r.Known; !u.known || !knew || u.was < was {
		u.Mean = cost.Mean{}
		return false
	}
	share := float64(u.was-was) / float64(d)
	if evaluations <= 1 { // some of it was used under the previous plan
		u.Mean = cost.Mean{}
		return false
	}
	strays := u.Strays(share)
	if strays {
		u.Mean = cost.Mean{} // react only once
	}
	u.Observe(share, d)
	if !strays || !e.IsDetached() {
		return false
	}
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	e.counted.early = true
	return true
}

// save saves a share of what the plan has cost in d for the next pass.
func (e *link) save(spending float64, d time.Duration) {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	e.counted.saved += countShare * spending * d.Seconds()
}

// countIfAffordable makes a counting pass over a detached input, if that costs no
// more than what was saved since the last pass.
func (g *Gating) countIfAffordable(e *link) error {
	if !e.IsDetached() {
		return nil
	}
	took, pays := g.countingPass(e)
	if !pays {
		return nil
	}
	e.Attaching.Lock()
	err := e.setDetached(false)
	e.Attaching.Unlock()
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

	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	e.counted.events += after.Events - before.Events
	e.counted.time += took
	e.counted.at, e.counted.saved, e.counted.early = time.Now(), 0, false
	if e.gate.Admits(clock.Now()) {
		e.closed = closedTime{}
		return nil // the gate has opened meanwhile: the probes stay attached
	}
	return e.setDetached(true)
}

// countingPass returns how long a pass should take, and whether enough was saved
// for it.
func (g *Gating) countingPass(e *link) (took time.Duration, pays bool) {
	g.Mu.Lock()
	rate := g.Inputs[e.GatedInput].Rate.Value()
	choosing := g.Mode == "auto" || g.Mode == ""
	g.Mu.Unlock()
	cycleTime := e.cycleCost()
	traps := rate * e.Source.Stats().Prices[plan.AtEntry].Shut // ns per second
	took = countMost
	if traps > 0 {
		took = min(countMost, max(countLeast, time.Duration(cycleTime/traps*1e9)))
	}
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	c := &e.counted
	may := c.saved
	if c.early {
		may *= earlyFactor
	}
	return took, choosing && time.Since(c.at) >= evaluateEvery && cycleTime+traps*took.Seconds() <= may
}

// countedRate returns the rate found by passes since its last call; NaN if
// there was none.
func (e *link) countedRate() (rate float64) {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	c := &e.counted
	rate = math.NaN()
	if c.time > 0 {
		rate = float64(c.events) / c.time.Seconds()
	}
	c.events, c.time = 0, 0
	return rate
}
