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

// Causes under which is counted what became no row, or not a whole one.
const (
	ringFull = "ring buffer full"
	cutArgs  = "argv longer than 16384 bytes, cut"
	unread   = "argv that could not be read"
)

// poll is how often records are looked for.
const poll = 10 * time.Millisecond

// source reads records on a goroutine of its own, from Start until Stop, until the
// context ends, or until every process of a target of numbers has ended. Only that
// goroutine uses the ring and the sink.
type source struct {
	probes.Base
	spec    *plan.Acquire
	event   uint32
	targets *targets
	kernel  *kernel

	mu      sync.Mutex // guards what follows
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

// lifeNs is what a record costs the thread that starts or ends, about.
const lifeNs = 1000

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	return probes.Info{Sites: s.sites(), Residual: s.spec.Filter, Live: true}
}

// sites are the tracepoints.
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

// Start attaches the programs and then looks at who is there: who comes in between
// is seen twice, which does no harm.
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

// watch returns a channel that is closed when all processes that the target names
// by number have ended, nil if it names others.
func (s *source) watch() (over <-chan struct{}, forget func(), err error) {
	t := s.spec.Target
	if t.IsZero() || len(t.Processes)+len(t.Exes) > 0 || t.Start != t.Stop {
		return nil, func() {}, nil
	}
	var why error
	var ends []<-chan struct{}
	var cancels []func()
	forget = func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
	for _, pid := range t.PIDs {
		end, cancel, err := process.Watch(pid)
		if err != nil {
			why = err // it has ended, and who has the number next is meant
			continue
		}
		ends, cancels = append(ends, end), append(cancels, cancel)
	}
	if len(ends) == 0 {
		return nil, nil, plan.Errorf(s.spec.Start, s.spec.Stop, "%v", why)
	}
	all := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		for _, end := range ends {
			select {
			case <-end:
			case <-gone:
				return
			}
		}
		close(all)
	}()
	stop := forget
	return all, sync.OnceFunc(func() { close(gone); stop() }), nil
}

// Stop ends the stream.
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

// drain makes rows of what is in the ring.
func (s *source) drain() {
	for end := s.kernel.ring.Produced(); s.kernel.ring.Drain(end, s.give) < end; {
		time.Sleep(50 * time.Microsecond) // a record is being written
	}
	s.rows.Flush()
}

func (s *source) give(record []byte) {
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

// account tells of what was lost since it was asked last.
func (s *source) account() {
	if n := s.kernel.lost(); n > s.lost {
		s.sink.Lost(ringFull, n-s.lost)
		s.lost = n
		// Whose processes began or ended meanwhile is not known: it is looked for.
		_ = s.targets.begin() // else they are as they were
	}
	if s.cut.argv > 0 {
		s.sink.Count(cutArgs, s.cut.argv)
	}
	if s.cut.unread > 0 {
		s.sink.Count(unread, s.cut.unread)
	}
	s.cut = tally{}
}
