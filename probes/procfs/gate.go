package procfs

import (
	"sync/atomic"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/gate"
)

// gated is a source's gate, and what it has done. The zero value is no gate.
// Only the source's goroutine uses it, but for the counts.
type gated struct {
	gate   *gate.Gate
	way    plan.GateWay
	asleep bool
	marked int64 // the last watermark given while shut

	due, shut atomic.Uint64
}

// What a tick costs besides the reading, in ns of CPU time: that the goroutine
// wakes, and that its rows make the query's wake. In a virtual machine BenchmarkTick
// gives 30 µs a tick at 1 kHz, and 100 where a CPU has gone to sleep in between.
const (
	wakeNs = 50_000
	giveNs = 30_000
)

// heartbeat is how often the watermark advances of a sampler that sleeps.
const heartbeat = time.Second

// ability says that a sampler can pause. Its rows' condition is tested by the
// engine.
func (s *source) ability() plan.Ability {
	a := plan.Ability{Gate: plan.Paused, Closed: "the condition on a sampled stream is not tested in the kernel"}
	if !s.gauge {
		a.Lag = time.Duration(s.warmup) * s.every
	}
	return a
}

// price is what a sample costs that meets a gate shut in a way.
func (s *source) price(way plan.GateWay) probes.Price {
	const tick = wakeNs
	read := float64(s.cost)
	p := probes.Price{Open: tick + read + giveNs}
	switch way {
	case plan.Asleep:
		p.Shut = tick * min(1, s.every.Seconds()/heartbeat.Seconds())
		p.Wake = giveNs + float64(s.begin)
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
	return st
}

// admits reports whether the sample of time at is wanted. The clock was read
// before: see package gate.
func (g *gated) admits(at int64) bool { return g.gate == nil || g.gate.Admits(at) }

// tick is admits for a sample that is due.
func (g *gated) tick(at int64) bool {
	g.due.Add(1)
	if g.admits(at) {
		return true
	}
	g.shut.Add(1)
	return false
}

// pass promises that no row before at follows, though not at every tick: that
// would wake the query, of which the gate is to spare it.
func (g *gated) pass(sink probes.Sink, at int64) {
	if at-g.marked >= int64(idle) {
		g.marked = at
		sink.Watermark(at)
	}
}

// forgetful is a sampler of which so many files are open that they are kept while
// it sleeps. After forget it knows of no time before.
type forgetful interface {
	sampler
	forget()
}

// woken is the sampler after it has slept: what it read before says nothing of now.
func (s *source) woken(asleep sampler) sampler {
	if f, ok := asleep.(forgetful); ok {
		f.forget()
		return asleep
	}
	asleep.close()
	return s.make()
}

// sleep is how long to wait for the sample that is due after d, and what ends it
// sooner: the gate of a source that is asleep.
func (g *gated) sleep(d time.Duration) (time.Duration, <-chan struct{}) {
	if g.asleep {
		return heartbeat, g.gate.Wake
	}
	return min(d, idle), nil
}
