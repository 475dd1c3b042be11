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

// detaching detaches the probes of an input while its gate is shut for long, if
// the gate is opened by the engine, which is late anyway (join_gating = gated).
type detaching struct {
	Source probes.Source // nil: the probes are never detached

	Attaching sync.Mutex // held while they are detached or attached; guards the following
	detached  bool
	changes   int           // number of times they were detached or attached
	Price     AttachPrice   // of a change
	closed    closedTime    // the current or next time for which the gate is shut
	rental    cost.Rental   // the cost of such times
	times     int           // number of times they were attached again
	late      time.Duration // how long the gate was open with nothing attached
	since     time.Time     // when the gate opened, if attaching has failed since; otherwise zero
	counted   counted
	used      usage
}

// AttachPrice is the processor time of attaching and of detaching: means of the
// last few times, since single ones differ by several times.
type AttachPrice struct{ Attach, detach time.Duration }

// closedTime is the time since a gate was last seen open.
type closedTime struct {
	since time.Time // zero: not observed yet, or held open
	shut  uint64    // calls at the shut gate by then
	seen  bool      // it was seen shut since
	rate  float64   // calls per second at the shut gate, until it was detached
}

// firstCycle is the assumed cost of detaching and attaching before it was
// measured.
const firstCycle = 10 * time.Millisecond

// detachCheckInterval is the interval at which detaching is considered: calls in between
// cost the target in vain.
const detachCheckInterval = 20 * time.Millisecond

// detachable determines whether a link's input can be detached.
func (g *Gating) detachable(e *link) {
	if e.Exact || e.Kernel || e.Way != plan.AtEntry {
		return
	}
	if in := g.Inputs[e.GatedInput]; in.source != nil && in.feed.OwnInfo.Detaches {
		e.Source, e.Price = in.source, AttachPrice{firstCycle / 2, firstCycle / 2}
	}
}

// runAttachment detaches and attaches until the query ends. A failed attempt is
// retried, so that a temporary failure does not leave the input detached for
// good.
func (g *Gating) runAttachment(e *link) {
	tick := time.NewTicker(detachCheckInterval)
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
			continue // wait until it runs, or is stopped
		}
		err := e.attach()
		if ticked && err == nil {
			err = g.detachIfCheaper(e)
		}
		if ticked && err == nil {
			err = g.countIfAffordable(e)
		}
		if err != nil {
			g.failed(fmt.Sprintf("%s: %v", e.GatedName, err))
		}
	}
}

// detachIfCheaper detaches the probes when the calls at the shut gate have cost
// enough.
func (g *Gating) detachIfCheaper(e *link) error {
	if e.IsDetached() {
		return nil
	}
	if e.gate.Forced() {
		e.Attaching.Lock()
		e.closed = closedTime{}
		e.Attaching.Unlock()
		return nil
	}
	st, now := e.Source.Stats(), time.Now()
	met, shut := st.Shut, st.Prices[e.Way].Shut
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
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
	if paid == 0 || paid < e.rental.Limit(float64(e.cycleTime())) {
		return nil
	}
	c.rate = float64(met-c.shut) / now.Sub(c.since).Seconds()
	return e.setDetached(true)
}

// attach attaches the probes again, since the gate is open.
func (e *link) attach() error {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	if !e.detached || !e.gate.Admits(clock.Now()) {
		e.since = time.Time{}
		return nil
	}
	if e.since.IsZero() {
		e.since = time.Now()
	}
	if err := e.setDetached(false); err != nil {
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

// setDetached detaches or attaches, and measures the processor time of that: for
// most of the elapsed time the kernel waits. The caller holds e.Attaching.
func (e *link) setDetached(detached bool) error {
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
	*mean += (took - *mean) / time.Duration(min(4, 1+e.changes/2))
	e.detached = detached
	e.changes++
	return nil
}

// cycleTime returns the processor time of detaching and attaching. The caller holds
// e.Attaching.
func (e *link) cycleTime() time.Duration { return e.Price.Attach + e.Price.detach }

// IsDetached reports whether nothing of the link's input is attached.
func (e *link) IsDetached() bool {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	return e.detached
}

// attachment returns the number of times that the input was detached or
// attached, and whether it is attached now.
func (e *link) attachment() (n int, attached bool) {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	return e.changes, !e.detached
}

// cycleCost returns the cost of detaching and attaching, in ns; 0 if the input
// is never detached.
func (e *link) cycleCost() float64 {
	if e.Source == nil {
		return 0
	}
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	return float64(e.cycleTime())
}

// unattached returns how long the gate was open with nothing attached.
func (e *link) unattached() time.Duration {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	if !e.since.IsZero() {
		return e.late + time.Since(e.since)
	}
	return e.late
}

// attached describes how often probes were attached again; "" if never.
func (e *link) attached() string {
	e.Attaching.Lock()
	defer e.Attaching.Unlock()
	if e.times == 0 {
		return ""
	}
	return fmt.Sprintf("; %d times its probes had to be attached again, which took %s", e.times, answer.FormatNs(float64(e.late)/float64(e.times)))
}
