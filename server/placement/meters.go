package placement

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/cost"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// meters holds the measurements from which the costs of a divided query are
// computed. Processor time is measured for sampled batches, by the thread's own
// clock. The stretch is the factor by which elapsed time exceeds it, since
// other threads use the processors, too:
//
//	Ttup = processor time of a tuple · stretch
//	Tnet = bytes of a tuple · (time to send a byte · stretch + 1 / rate of the network)
type meters struct {
	lower, stage cost.Mean // ns of processor time for a row of Base, and for a row from Lower
	passes       cost.Mean // rows from Lower per row of Base
	groups       cost.Mean // groups whose states are sent at a time
	rate         cost.Mean // rows of Base per second
	load         cost.Mean // runnable threads of the machine
	stretch      slowdown

	emitted  float64            // how often states are sent, per second
	sizes    [divisions]float64 // bytes of a tuple sent, by division
	assumed  assumed
	next     time.Time // when to measure again
	settled  uint64    // number of rows when the rate was last computed
	sampling bool
	inner    time.Duration // of a sample: time spent in the stage
	given    int           // of a sample: rows from Lower
	took     time.Duration // duration of the last sample
}

const divisions = int(atStage) + 1

const (
	// sampling is the least interval between measured batches.
	sampling = 50 * time.Millisecond
	// trials is the least ratio of the time between trials to the duration of
	// one.
	trials = 100
	// sendDefault is the assumed cost of sending a byte, in ns, before it was
	// measured.
	sendDefault = 0.5
)

// assumed holds the assumed values before any measurement.
type assumed struct{ lower, stage, passes float64 }

func newMeters(f *plan.Fragment, emitted float64) meters {
	m := meters{emitted: emitted, assumed: assume(f)}
	m.sizes[atBase] = rowBytes(plan.Source(f.Lower).Out)
	m.sizes[atLower] = rowBytes(f.Lowered())
	if p := f.Partial(); p != nil {
		m.sizes[atStage] = rowBytes(p.Out)
	}
	return m
}

// rowBytes estimates the bytes of a row as sent: strings are codes.
func rowBytes(s types.Schema) (n float64) {
	for _, f := range s.Fields {
		switch f.Type.Physical() {
		case types.PhysInt, types.PhysFloat:
			n += 8
		case types.PhysCode:
			n += 4
		case types.PhysBool:
			n += 0.125
		case types.PhysAny:
			n += 64
		}
	}
	return n
}

// emissions returns how often the states of all groups are requested, per
// second.
func emissions(root plan.Node, live time.Duration) (n float64) {
	if live > 0 {
		n += 1 / live.Seconds()
	}
	if every := plan.EmitEvery(root); every > 0 {
		n += 1 / every.Seconds()
	}
	for x := root; len(x.Inputs()) == 1; x = x.Inputs()[0] {
		w, ok := x.(*plan.Window)
		if !ok {
			continue
		}
		switch w.Spec.Kind {
		case plan.Tumble:
			n += 1 / w.Spec.Size.Seconds()
		case plan.Hop:
			n += 1 / w.Spec.Slide.Seconds()
		}
	}
	return n
}

// due reports whether a batch should be measured.
func (m *meters) due(now time.Time) bool {
	if now.Before(m.next) {
		return false
	}
	m.next = now.Add(sampling)
	return true
}

// rest delays the next trial, so that trials cost little.
func (m *meters) rest() {
	if after := trials * m.took; after > sampling {
		m.next = m.next.Add(after - sampling)
	}
}

// measure executes the server's share of a batch and measures it.
func (m *meters) measure(b *batch.Batch, run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.sampling, m.inner, m.given = true, 0, 0
	began := clock.ThreadTime()
	err := run()
	m.took = clock.ThreadTime() - began
	m.sampling = false
	if n := b.Len(); n > 0 && err == nil {
		m.lower.Observe(float64(m.took-m.inner)/float64(n), sampling)
		m.passes.Observe(float64(m.given)/float64(n), sampling)
		if m.given > 0 && m.inner > 0 {
			m.stage.Observe(float64(m.inner)/float64(m.given), sampling)
		}
	}
	if n, ok := runnable(); ok {
		m.load.Observe(n, sampling)
	}
	return err
}

// runStage records rows from Lower, and runs the stage on them, unless it is
// nil.
func (m *meters) runStage(b *batch.Batch, stage func() error) error {
	if m.sampling {
		m.given += b.Len()
	}
	if stage == nil {
		return nil
	}
	if !m.sampling {
		return stage()
	}
	began := clock.ThreadTime()
	err := stage()
	m.inner += clock.ThreadTime() - began
	return err
}

// updateRates computes the rates over an interval d.
func (m *meters) updateRates(p *Placement, d time.Duration) {
	m.rate.Observe(float64(p.rows-m.settled)/d.Seconds(), d)
	m.settled = p.rows
	m.stretch.observe(d, m.load.Value())
}

// known reports whether anything was measured.
func (m *meters) known() bool { return m.rate.Known() }

// busy returns the factor by which elapsed time exceeds processor time.
func (m *meters) busy() float64 { return m.stretch.at(m.load.Value(), runtime.NumCPU()) }

// cost returns the cost of a division: per second or, if nothing was measured,
// per row.
func (m *meters) cost(p *Placement, d division) cost.Placement {
	c := cost.Placement{In: 1, Out: 1}
	if m.known() {
		c.In = m.rate.Value()
	}
	lower, stage, passes := m.times()
	switch d {
	case atBase:
		c.Out = c.In
	case atLower:
		c.Tuple, c.Out = lower*m.busy(), c.In*passes
	case atStage:
		c.Tuple, c.Out = (lower+passes*stage)*m.busy(), m.groups.Value()*m.emitted
		if !m.known() {
			c.Out = 0
		}
	}
	c.Net = m.net(p.link(), m.sizes[d])
	return c
}

func (m *meters) times() (lower, stage, passes float64) {
	lower, stage, passes = m.assumed.lower, m.assumed.stage, m.assumed.passes
	if m.lower.Confidence() > 0 {
		lower, passes = m.lower.Value(), m.passes.Value()
	}
	if m.stage.Confidence() > 0 {
		stage = m.stage.Value()
	}
	return lower, stage, passes
}

// net returns the time to send so many bytes, in ns.
func (m *meters) net(l wire.Link, bytes float64) float64 {
	send := l.Send
	if send == 0 {
		send = sendDefault
	}
	ns := send * m.busy()
	if l.Rate > 0 {
		ns += 1e9 / l.Rate
	}
	return bytes * ns
}

func (p *Placement) link() wire.Link {
	if p.path == nil {
		return wire.Link{}
	}
	return p.path.Link()
}

// describe prints the measurements.
func (m *meters) describe(p *Placement) string {
	lower, stage, _ := m.times()
	s := fmt.Sprintf("processor time of a tuple %s", answer.FormatNs(lower))
	if p.stage != nil {
		s += fmt.Sprintf(" and %s to fold it", answer.FormatNs(stage))
	}
	if m.load.Confidence() > 0 {
		s += fmt.Sprintf(", which takes %.2g times as long with %.2g threads running", m.busy(), m.load.Value())
	} else {
		s += ", not measured yet"
	}
	s += fmt.Sprintf("; %.3g bytes a row", m.sizes[atBase])
	l := p.link()
	switch {
	case l.Rate == 0:
		s += ", a network without limits"
	case l.Limited:
		s += fmt.Sprintf(", a network that carries %.3g MB/s", l.Rate/1e6)
	default:
		s += fmt.Sprintf(", a network of which %.3g MB/s are expected", l.Rate/1e6)
	}
	if l.RTT > 0 {
		s += fmt.Sprintf(", there and back in %s", l.RTT.Round(10*time.Microsecond))
	}
	return s
}

// runnable returns the number of runnable threads of the machine: the fourth
// field of /proc/loadavg (proc(5)).
func runnable() (float64, bool) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 4 {
		return 0, false
	}
	running, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.ParseFloat(string(running), 64)
	return n, err == nil
}
