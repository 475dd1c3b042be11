package gating

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/server/answer"
)

// detaching takes the probes of an input away while its gate is shut for long,
// where the gate is opened late anyway: by the engine (join_gating = gated).
type detaching struct {
	Source probes.Source // nil: its probes stay

	Flipping sync.Mutex // held while they are detached or attached, and guards what follows
	detached bool
	flips    int           // how often it was detached or attached
	Price    FlipPrice     // of that
	closed   closedTime    // in which the gate is, or the time until it is
	rental   cost.Rental   // what such times cost
	times    int           // it was attached again
	late     time.Duration // for which the gate was open and nothing attached
	since    time.Time     // of a gate that is open, and to which nothing could be attached so far; zero: of none
	counted  counted
	used     usage
}

// FlipPrice is the processor time that it takes to attach, and to detach: means of
// the last few times, since single ones differ by several times.
type FlipPrice struct{ Attach, detach time.Duration }

// closedTime is the time since a gate was last seen open.
type closedTime struct {
	since time.Time // zero: it was not looked at, or was held open
	shut  uint64    // calls that had met it closed by then
	seen  bool      // it was seen closed since
	rate  float64   // calls that met it a second, until it was detached
}

// firstFlip is what detaching and attaching is taken to cost before it was seen.
const firstFlip = 10 * time.Millisecond

// lookEvery is how often it is considered: calls that go on paying until the next
// time are paid for nothing.
const lookEvery = 20 * time.Millisecond

// detachable finds out whether an edge's input can do without its probes.
func (g *Gating) detachable(e *edge) {
	if e.Exact || e.Kernel || e.Way != plan.AtEntry {
		return
	}
	if in := g.Inputs[e.GatedInput]; in.source != nil && in.feed.OwnInfo.Detaches {
		e.Source, e.Price = in.source, FlipPrice{firstFlip / 2, firstFlip / 2}
	}
}

// flips detaches and attaches until the query ends. What fails is tried again: the
// input must not be shut for good by what is over in a moment.
func (g *Gating) flips(e *edge) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-tick.C:
			ticked = true
		case <-e.gate.Wake:
		case <-g.stop:
			return
		}
		if !g.mayAttach() {
			continue // until it runs, or is stopped
		}
		err := e.attach()
		if ticked && err == nil {
			err = g.perhapsDetach(e)
		}
		if ticked && err == nil {
			err = g.perhapsCount(e)
		}
		if err != nil {
			g.failed(fmt.Sprintf("%s: %v", e.GatedName, err))
		}
	}
}

// perhapsDetach takes the probes away when calls have paid enough at the gate.
func (g *Gating) perhapsDetach(e *edge) error {
	if e.IsDetached() {
		return nil
	}
	if e.gate.Forced() {
		e.Flipping.Lock()
		e.closed = closedTime{}
		e.Flipping.Unlock()
		return nil
	}
	st, now := e.Source.Stats(), time.Now()
	met, shut := st.Shut, st.Prices[e.Way].Shut
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	c := &e.closed
	paid := float64(met-c.shut) * shut
	switch {
	case e.detached:
		return nil
	case e.gate.Admits(clock.Now()):
		if c.seen {
			e.rental.Ended(paid)
		}
		fallthrough
	case c.since.IsZero():
		*c = closedTime{since: now, shut: met}
		return nil
	}
	c.seen = true
	if paid == 0 || paid < e.rental.Limit(float64(e.flip())) {
		return nil
	}
	c.rate = float64(met-c.shut) / now.Sub(c.since).Seconds()
	return e.flipped(true)
}

// attach puts the probes back: the gate is open.
func (e *edge) attach() error {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	if !e.detached || !e.gate.Admits(clock.Now()) {
		e.since = time.Time{}
		return nil
	}
	if e.since.IsZero() {
		e.since = time.Now()
	}
	if err := e.flipped(false); err != nil {
		return err
	}
	st := e.Source.Stats()
	if c := &e.closed; c.seen {
		e.rental.Ended(c.rate * e.since.Sub(c.since).Seconds() * st.Prices[e.Way].Shut)
	}
	e.closed = closedTime{since: time.Now(), shut: st.Shut}
	e.times++
	e.late += time.Since(e.since)
	e.since = time.Time{}
	return nil
}

// flipped detaches or attaches, and learns what that costs: processor time, since
// for most of the time it takes the kernel waits. e.flipping is held.
func (e *edge) flipped(detached bool) error {
	var c probes.Command = probes.Attach{}
	if detached {
		c = probes.Detach{}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := clock.ThreadTime()
	if _, err := e.Source.Control(context.Background(), c); err != nil {
		return err
	}
	took, mean := clock.ThreadTime()-began, &e.Price.Attach
	if detached {
		mean = &e.Price.detach
	}
	*mean += (took - *mean) / time.Duration(min(4, 1+e.flips/2))
	e.detached = detached
	e.flips++
	return nil
}

// flip is the processor time that it takes to detach and to attach. e.flipping is
// held.
func (e *edge) flip() time.Duration { return e.Price.Attach + e.Price.detach }

// IsDetached reports whether nothing of the edge's input is attached.
func (e *edge) IsDetached() bool {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	return e.detached
}

// flippings is how often it was detached or attached so far, and whether it is
// attached now.
func (e *edge) flippings() (n int, attached bool) {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	return e.flips, !e.detached
}

// flipCost is what it takes to detach and attach, ns; 0 if that cannot be.
func (e *edge) flipCost() float64 {
	if e.Source == nil {
		return 0
	}
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	return float64(e.flip())
}

// unattached is for how long the gate was open and nothing attached.
func (e *edge) unattached() time.Duration {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	if !e.since.IsZero() {
		return e.late + time.Since(e.since)
	}
	return e.late
}

// attached says how often probes were attached again, if they were.
func (e *edge) attached() string {
	e.Flipping.Lock()
	defer e.Flipping.Unlock()
	if e.times == 0 {
		return ""
	}
	return fmt.Sprintf("; %d times its probes had to be attached again, which took %s", e.times, answer.FormatNs(float64(e.late)/float64(e.times)))
}
