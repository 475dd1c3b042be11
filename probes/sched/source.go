package sched

import (
	"context"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// Causes counted for events that became no row, or an incomplete one.
const (
	ringFull = "ring buffer full"
	cutArgs  = "argv longer than 16384 bytes, cut"
	unread   = "argv that could not be read"
)

// poll is the interval of reading the ring.
const poll = 10 * time.Millisecond

// source reads records on a goroutine of its own, from Start until Stop, until
// the context ends, or until every process given by pid has ended. Only that
// goroutine uses the ring and the sink.
type source struct {
	probes.Base
	spec    *plan.Acquire
	event   uint32
	targets *targets
	kernel  *kernel

	mu      sync.Mutex // guards the fields below
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended

	// Owned by the goroutine.
	rows *rows.Writer[life]
	sink probes.Sink
	lost uint64
	cut  tally
}

type tally struct{ argv, unread uint64 }

// lifeNs is the approximate cost of a record to the thread that starts or ends.
const lifeNs = 1000

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	return probes.Info{Sites: s.sites(), Residual: s.spec.Filter, Live: true}
}

// sites returns the tracepoints.
func (s *source) sites() []probes.Site {
	var sites []probes.Site
	events := s.event | s.targets.needs()
	for _, t := range []struct {
		name   string
		events uint32
	}{
		{"sched_process_fork", processStart | threadStart},
		{"sched_process_exec", processExec},
		{"sched_process_exit", processEnd | threadEnd},
		{"task_rename", threadRename},
	} {
		if events&t.events != 0 {
			sites = append(sites, probes.Site{Provider: "sched", Function: t.name, Method: "tracepoint", Kind: "tp_btf", CostNs: lifeNs, Estimated: true})
		}
	}
	return sites
}

// Start attaches the programs and then lists the existing processes: a process
// that starts in between is seen twice, which is harmless.
func (s *source) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	over, forget, err := s.watch()
	if err != nil {
		return err
	}
	if err := s.kernel.attach(); err != nil {
		forget()
		return err
	}
	if err := s.targets.begin(); err != nil {
		forget()
		s.kernel.detach()
		return err
	}
	s.started = true
	s.sink, s.rows.Push = sink, sink.Push
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.ended)
		defer forget()
		err := s.run(ctx, over)
		s.kernel.detach()
		s.drain()
		s.account()
		sink.End(err)
	}()
	return nil
}

// watch returns a channel that is closed when all processes given by pid have
// ended, nil if the target is not given by pids only.
func (s *source) watch() (over <-chan struct{}, forget func(), err error) {
	t := s.spec.Target
	if t.IsZero() || t.Grows() || t.Start != t.Stop {
		return nil, func() {}, nil
	}
	var why error
	running := 0
	over, forget = process.WatchAll(t.PIDs, func(_ int, err error) bool {
		if err != nil {
			why = err // it has ended; a later process may have its pid
			return false
		}
		running++
		return true
	})
	if running == 0 {
		forget()
		return nil, nil, plan.Errorf(s.spec.Start, s.spec.Stop, "%v", why)
	}
	return over, forget, nil
}

// Stop implements probes.Source.
func (s *source) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && !s.stopped {
		close(s.stop)
		<-s.ended
	}
	if !s.stopped {
		s.kernel.close()
	}
	s.stopped = true
	return nil
}

func (s *source) run(ctx context.Context, over <-chan struct{}) error {
	timer := time.NewTicker(poll)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-over:
			return nil
		case <-s.stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		now := clock.Now()
		s.drain()
		s.account()
		s.sink.Watermark(now - int64(s.spec.Settings.Lateness))
	}
}

// drain makes rows of the records in the ring.
func (s *source) drain() {
	s.kernel.ring.DrainAll(s.addRow)
	s.rows.Flush()
}

func (s *source) addRow(record []byte) {
	l, ok := decode(record)
	if !ok || !s.targets.wants(l) || l.Event&s.event == 0 {
		return
	}
	if l.ArgvAll > l.Argv && l.Argv > 0 {
		s.cut.argv++
	}
	if l.Cut&noArgv != 0 {
		s.cut.unread++
	}
	s.rows.Put(l)
}

// account reports the records lost since the last call.
func (s *source) account() {
	if n := s.kernel.lost(); n > s.lost {
		s.sink.Lost(ringFull, n-s.lost)
		s.lost = n
		// Starts and ends of the target's processes may be among the lost
		// records: list them again.
		_ = s.targets.begin() // on error the targets stay as they were
	}
	if s.cut.argv > 0 {
		s.sink.Count(cutArgs, s.cut.argv)
	}
	if s.cut.unread > 0 {
		s.sink.Count(unread, s.cut.unread)
	}
	s.cut = tally{}
}
