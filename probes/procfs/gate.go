package procfs

import (
	"sync/atomic"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
)

// gated is a source's gate and its counters. The zero value is no gate. It is
// used by the source's goroutine only, except for the counters.
type gated struct {
	gate   *gate.Gate
	way    plan.GateWay
	asleep bool
	marked int64 // the last watermark while shut

	due, shut atomic.Uint64
}

// The cost of a tick besides the reading, in ns of CPU time: waking the
// goroutine, and waking the query for its rows. In a virtual machine
// BenchmarkTick measures 30 µs a tick at 1 kHz, and 100 µs if a CPU has gone
// idle in between.
const (
	wakeNs      = 50_000
	wakeQueryNs = 30_000
)

// heartbeat is the interval of watermarks of a sampler that sleeps.
const heartbeat = time.Second

// ability returns that a sampler can pause. The condition of its rows is tested
// by the engine.
func (s *source) ability() plan.Ability {
	a := plan.Ability{Gate: plan.Paused, Closed: "the condition on a sampled stream is not tested in the kernel"}
	if !s.gauge {
		a.Lag = time.Duration(s.warmup) * s.every
	}
	return a
}

// price returns the cost of a sample while the gate is shut in a way.
func (s *source) price(way plan.GateWay) probes.Price {
	const tick = wakeNs
	read := float64(s.cost)
	p := probes.Price{Open: tick + read + wakeQueryNs}
	switch way {
	case plan.Asleep:
		p.Shut = tick * min(1, s.every.Seconds()/heartbeat.Seconds())
		p.Wake = wakeQueryNs + float64(s.begin)
	case plan.Paused:
		p.Shut = tick
	default:
		p.Shut = tick + read
	}
	return p
}

// Stats implements probes.Source.
func (s *source) Stats() (st probes.Stats) {
	st.Events, st.Shut = s.gate.due.Load(), s.gate.shut.Load()
	for way := range st.Prices {
		st.Prices[way] = s.price(plan.GateWay(way))
	}
	st.Spent = time.Duration(float64(st.Events-st.Shut) * st.Prices[plan.NoGate].Open)
	return st
}

// admits reports whether the sample of time at is wanted. The clock was read
// before the gate: see package gate.
func (g *gated) admits(at int64) bool { return g.gate == nil || g.gate.Admits(at) }

// tick is admits for a sample that is due, and counts.
func (g *gated) tick(at int64) bool {
	g.due.Add(1)
	if g.admits(at) {
		return true
	}
	g.shut.Add(1)
	return false
}

// advance advances the watermark to at, but not at every tick: that would wake the
// query, which the gate is to avoid.
func (g *gated) advance(sink probes.Sink, at int64) {
	if at-g.marked >= int64(idle) {
		g.marked = at
		sink.Watermark(at)
	}
}

// keepsFiles is a sampler with so many open files that they are kept while it
// sleeps. forget drops its history.
type keepsFiles interface {
	sampler
	dropHistory()
}

// woken returns the sampler to use after a sleep, without history: earlier
// readings are outdated.
func (s *source) woken(asleep sampler) sampler {
	if f, ok := asleep.(keepsFiles); ok {
		f.dropHistory()
		return asleep
	}
	asleep.close()
	return s.make()
}

// sleep returns how long to wait for the sample that is due after d, or for the next
// watermark after another time, and a channel that ends the wait earlier: that of the
// gate of a source that is asleep.
func (g *gated) sleep(d, watermark time.Duration) (time.Duration, <-chan struct{}) {
	if g.asleep {
		return heartbeat, g.gate.Wake
	}
	return min(d, watermark), nil
}
