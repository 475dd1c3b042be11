package server

import (
	"math"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/clock"
)

// counted is what counting passes found: while an input is detached nobody sees
// how often it is called, on which the choice of plan rests. In a pass its probes
// are attached behind their shut gate for a moment.
type counted struct {
	events uint64
	time   time.Duration
	at     time.Time // of the last pass
}

const (
	// countFor is how long a pass takes.
	countFor = 50 * time.Millisecond
	// countShare is what passes may cost, as a share of what the plan costs.
	countShare = 0.02
)

// perhapsCount makes a pass over a detached input, if that costs little enough
// beside what the plan has cost since the last.
func (g *gating) perhapsCount(e *edge) error {
	if !e.isDetached() || !g.countPays(e) {
		return nil
	}
	e.flipping.Lock()
	err := e.flipped(false, e.source.Attach)
	e.flipping.Unlock()
	if err != nil {
		return err
	}
	before, began := e.source.Activity(), time.Now()
	select {
	case <-time.After(countFor):
	case <-g.stop:
		return nil
	}
	after, took := e.source.Activity(), time.Since(began)

	e.flipping.Lock()
	defer e.flipping.Unlock()
	e.counted.events += after.Events - before.Events
	e.counted.time += took
	e.counted.at = time.Now()
	if e.shut = after.Shut; e.gate.Admits(clock.Now()) {
		return nil // the gate has opened meanwhile: the probes stay
	}
	return e.flipped(true, e.source.Detach)
}

// countPays reports whether a pass is worth what it costs. Only where plans are
// chosen between is it worth anything.
func (g *gating) countPays(e *edge) bool {
	g.mu.Lock()
	spending, rate := g.spending, g.inputs[e.gated].rate.Value()
	choosing := g.mode == "auto" || g.mode == ""
	g.mu.Unlock()
	pass := e.flipCost() + rate*countFor.Seconds()*e.source.Price(plan.AtEntry).Shut
	e.flipping.Lock()
	defer e.flipping.Unlock()
	if e.counted.at.IsZero() {
		e.counted.at = time.Now()
	}
	since := time.Since(e.counted.at)
	return choosing && since >= evaluateEvery && pass <= countShare*spending*since.Seconds()
}

// takeCounted is the rate that passes found since it was last asked for; NaN if there was none.
func (e *edge) takeCounted() (rate float64) {
	e.flipping.Lock()
	defer e.flipping.Unlock()
	c := &e.counted
	rate = math.NaN()
	if c.time > 0 {
		rate = float64(c.events) / c.time.Seconds()
	}
	c.events, c.time = 0, 0
	return rate
}
