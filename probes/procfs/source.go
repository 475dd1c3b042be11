package procfs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/process"
)

// overrun is the cause counted for missed samples.
const overrun = "sampler overrun"

// denied is the cause counted for values that we may not read.
const denied = "not permitted to read another user's process"

// The interval of watermarks between samples is a part of that of samples, idle at least and
// heartbeat at most: each waking costs about as much as a sample.
const idle, idleShare = 100 * time.Millisecond, 4

// source samples on a goroutine of its own, from Start until Stop, until the
// context ends, or until every process given by pid has ended. Only that
// goroutine uses the sampler and the sink.
type source struct {
	clock   func() int64
	every   time.Duration
	window  window
	warmup  int64 // ticks without rows
	gauge   bool  // a row does not depend on earlier readings
	rows    *output
	make    func() sampler
	pinned  []process.Process // the target, if it cannot grow but by descendants
	follows bool              // descendants belong to it
	targets *targets          // of the sampler; nil where it is not of processes
	files   string
	cost    time.Duration // of a reading
	begin   time.Duration // additional cost of the first reading, where each wake-up starts over
	notices []string
	filter  plan.Expr // left to the engine
	gate    gated     // may suppress readings, or rows

	mu      sync.Mutex // guards the fields below
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended
}

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	return probes.Info{
		Sites:   []probes.Site{{Provider: "procfs", Function: s.files, Method: "procfs", CostNs: float64(s.cost)}},
		Notices: s.notices, Residual: s.filter, Live: true, Identity: fmt.Sprint(s.files, s.follows, process.Identify(s.pinned)),
		Gateable: true, Ability: s.ability(),
	}
}

// Load implements probes.Source; there is nothing to do.
func (s *source) Load(context.Context, probes.Options) error { return nil }

// Start takes the first reading for rates. The stream ends when ctx does.
func (s *source) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.gate, s.gate.way = o.Gates.Own, o.Gates.Way
	if s.stopped {
		sink.End(nil)
		return nil
	}
	sampler := s.make()
	start := time.Now()
	if err := sampler.sample(s.clock(), s.rows); err != nil {
		sampler.close()
		return err
	}
	s.started = true
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.ended)
		sink.End(s.run(ctx, sampler, sink, start))
	}()
	return nil
}

// Stop implements probes.Source.
func (s *source) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && !s.stopped {
		close(s.stop)
		<-s.ended
	}
	s.stopped = true
	return nil
}

// run samples at start + k·every, and closes the sampler.
func (s *source) run(ctx context.Context, sampler sampler, sink probes.Sink, start time.Time) error {
	gone, unwatch := s.watch()
	defer unwatch()
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { sampler.close() }()
	giving := s.warmup // the first tick with rows
	orphaned := false  // the pinned processes have ended, and descendants may run
	for k := int64(1); ; {
		due := start.Add(time.Duration(k) * s.every)
		wait, woken := s.gate.sleep(time.Until(due), min(max(idle, s.every/idleShare), heartbeat))
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-woken:
		case <-gone:
			gone, orphaned = nil, true
		case <-s.stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if orphaned && !s.hasDescendants() {
			return nil
		}
		passed := time.Since(start)
		if s.gate.asleep {
			at := s.clock()
			if !s.gate.admits(at) {
				sink.Watermark(at)
				continue
			}
			s.gate.asleep = false
			sampler = s.woken(sampler)
			k = int64(passed/s.every) + 1
			if giving = k; !s.gauge {
				giving += s.warmup
			}
			continue
		}
		if passed < time.Duration(k)*s.every {
			sink.Watermark(s.clock())
			continue
		}
		if now := int64(passed / s.every); now > k {
			missed, began := uint64(0), s.clock()-int64(passed)
			for tick := max(k, giving); tick < now; tick++ {
				if s.gate.admits(began + tick*int64(s.every)) {
					missed++
				}
			}
			if missed > 0 {
				sink.Lost(overrun, missed)
			}
			k = now
		}
		at := s.clock()
		open := s.gate.tick(at)
		if !open && s.gate.way != plan.Resting {
			s.gate.asleep = s.gate.way == plan.Asleep
			s.gate.advance(sink, at)
			k++
			continue
		}
		s.rows.sink = nil
		if open && k >= giving {
			s.rows.sink = sink
		}
		if err := sampler.sample(at, s.rows); err != nil {
			return err
		}
		s.rows.flush()
		if s.rows.denied > 0 {
			sink.Count(denied, s.rows.denied)
			s.rows.denied = 0
		}
		if open {
			sink.Watermark(at)
		} else {
			s.gate.advance(sink, at)
		}
		k++
	}
}

// hasDescendants reports whether processes run that descend from those of the target.
func (s *source) hasDescendants() bool {
	return s.follows && s.targets.refresh() == nil && len(s.targets.running) > 0
}

// watch returns a channel that is closed when every pinned process has ended,
// nil if none is pinned, and a function that stops watching.
func (s *source) watch() (<-chan struct{}, func()) {
	if len(s.pinned) == 0 {
		return nil, func() {}
	}
	started := map[int]uint64{}
	var pids []int
	for _, p := range s.pinned {
		pids, started[p.PID] = append(pids, p.PID), p.StartTime
	}
	return process.WatchAll(pids, func(pid int, err error) bool {
		now, ok := process.Lookup(pid)
		return err == nil && ok && now.StartTime == started[pid]
	})
}
