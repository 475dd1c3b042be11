package variable

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// Causes under which is counted what became no row.
const (
	ringFull = "ring buffer full"
	cutTexts = "texts cut off"
	unread   = "variables that could not be read"
	overrun  = "sampler overrun"
	refused  = "processes that could not be watched"
	unsure   = "threads that may not be watched"
	replaced = "processes that executed another program"
	arrived  = "processes observed only from a moment after they began"
	passed   = "processes that ended before they could be observed"
	orphaned = "writes of processes that were let go"
)

const (
	poll   = 10 * time.Millisecond  // how often writes are looked for
	rescan = 100 * time.Millisecond // and processes that a name or an executable means
	retry  = time.Second            // and whether one that was refused can be watched now
)

// refusal is why a process that is meant is not observed.
type refusal struct {
	image image // of which it is said
	final bool  // another time would be no better
	again time.Time
}

// source is what both ways of observing have in common: processes with variables,
// and a goroutine that alone uses them and the sink from Start until Stop, until the
// context ends, or until every process named by number has ended.
type source struct {
	probes.Base
	provider *Provider
	spec     *plan.Acquire
	names    []string
	modules  []string
	matcher  *process.Matcher
	grows    bool           // there may be more processes later
	numbered map[int]uint64 // processes that are meant whatever they execute: when they began
	subjects map[int]*subject
	layouts  layouts
	refusals map[int]refusal // of processes that are meant and are no subjects
	changed  map[int]bool    // those of these that were, and executed another program
	loads    bool            // see awaits
	watcher  *watcher        // nil: not watched
	tracer   *tracer         // nil: they are no variables of functions
	ends     *ends           // nil: nobody can come unseen, or it is not told
	rows     *rows.Writer[observation]
	notices  []string
	cut      uint64 // texts that were longer than what is read of one
	failed   uint64 // and that could not be read at all
	clock    func() int64
	scanned  time.Time
	sites    atomic.Pointer[[]probes.Site] // of what is probed, as it is known now

	mu      sync.Mutex // guards what follows
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended
}

// info is the Info of a source with these sites.
func (s *source) info(sites []probes.Site) probes.Info {
	return probes.Info{Sites: sites, Notices: s.notices, Residual: s.spec.Filter, Live: true}
}

// begin starts the goroutine.
func (s *source) begin(ctx context.Context, sink probes.Sink, run func(ctx context.Context, sink probes.Sink) error) {
	s.started = true
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	s.rows.Push = sink.Push
	go func() {
		defer close(s.ended)
		err := run(ctx, sink)
		s.endUnseen(sink)
		s.free()
		sink.End(err)
	}()
}

// Stop ends the stream.
func (s *source) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
	case s.started:
		close(s.stop)
		<-s.ended
	default:
		s.free()
	}
	s.stopped = true
	return nil
}

func (s *source) free() {
	if s.ends != nil { // it never began
		_ = s.ends.source.Stop()
		s.ends = nil
	}
	if s.watcher != nil {
		s.watcher.close()
		s.watcher = nil
	}
	if s.tracer != nil {
		s.tracer.close()
		s.tracer = nil
	}
	for _, one := range s.subjects {
		one.writers.close()
	}
}

// refresh takes in processes that are meant now, and forgets those that have ended or
// execute something else; it reports whether there may be any more.
func (s *source) refresh(now time.Time, sink probes.Sink) bool {
	if pause := now.Sub(s.scanned); pause < poll || pause < rescan && !s.awaits() {
		return true
	}
	s.scanned = now
	s.countUnseen(sink)
	s.unsettle() // what the kernel writes to pointers is not seen
	changed := s.forget(sink)
	all, err := s.candidates()
	if err != nil {
		return true // there will be another time
	}
	meant := map[int]bool{}
	for _, p := range all {
		if !s.means(p) || !process.Visible(s.spec.Target.Viewer, p.PID) {
			delete(s.numbered, p.PID)
			continue
		}
		meant[p.PID] = true
		if changed[p.PID] {
			sink.Count(replaced, 1)
			s.changed[p.PID] = true
		}
		if s.subjects[p.PID] == nil {
			s.take(p, now, sink)
		}
	}
	maps.DeleteFunc(s.refusals, func(pid int, _ refusal) bool { return !meant[pid] })
	maps.DeleteFunc(s.changed, func(pid int, _ bool) bool { return !meant[pid] })
	return s.grows || len(s.numbered) > 0
}

// awaits reports whether a process that was named has only begun, and is about to load
// what is observed. It is looked for that more often, for a while.
func (s *source) awaits() bool {
	if !s.loads || s.grows {
		return false
	}
	s.loads = false
	for pid := range s.numbered {
		p, runs := process.Lookup(pid)
		s.loads = s.loads || runs && s.subjects[pid] == nil && p.Age() < beginning
	}
	return s.loads
}

// forget lets go of the subjects that have ended or execute something else, when all
// that they have written is given; it returns the latter.
func (s *source) forget(sink probes.Sink) (changed map[int]bool) {
	changed = map[int]bool{}
	var gone []*subject
	for pid, one := range s.subjects {
		p, ok := process.Lookup(pid)
		switch {
		case !ok || p.StartTime != one.process.StartTime || !process.Visible(s.spec.Target.Viewer, pid):
		case !one.image.runs(pid):
			changed[pid] = true
		default:
			continue
		}
		gone = append(gone, one)
	}
	if s.probes() && len(gone) > 0 {
		for _, one := range gone {
			s.remove(one.process.PID)
		}
		s.drain(sink)
	}
	for _, one := range gone {
		one.writers.close()
		delete(s.subjects, one.process.PID)
		if s.ends != nil {
			s.ends.former[one.process.PID] = true
		}
		if s.tracer != nil {
			s.tracer.forget(one.process.PID)
		}
	}
	return changed
}

// probes reports whether processes are probed, not sampled.
func (s *source) probes() bool { return s.watcher != nil || s.tracer != nil }

// remove ends what is probed in a process.
func (s *source) remove(pid int) {
	if s.tracer != nil {
		s.tracer.remove(pid)
	} else {
		s.watcher.remove(pid)
	}
}

// candidates are the processes among which those are that are meant.
func (s *source) candidates() (all []process.Process, err error) {
	if s.grows {
		return process.List()
	}
	for pid := range s.numbered {
		p, ok := process.Lookup(pid)
		if !ok {
			delete(s.numbered, pid)
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// means reports whether the target is about a process.
func (s *source) means(p process.Process) bool {
	start, ok := s.numbered[p.PID]
	return ok && start == p.StartTime || s.grows && s.matcher.Matches(p)
}

// take makes a process a subject. One that cannot be is counted once; it is tried again
// when it executes something else, or for reasons that pass. One that has come since,
// by a fork or a program that it executed, may have written already: it is counted.
func (s *source) take(p process.Process, now time.Time, sink probes.Sink) {
	last, isRefused := s.refusals[p.PID]
	isRefused = isRefused && last.image.runs(p.PID)
	if isRefused && (last.final || now.Before(last.again)) {
		return
	}
	before, err := imageOf(p.PID)
	if err != nil {
		return // it has ended, or is only about to execute the program
	}
	one, err := s.subject(p)
	if err == nil && s.probes() {
		err = s.watch(one)
	}
	if err == nil {
		if s.probes() && !isRefused && !s.changed[p.PID] {
			sink.Count(arrived, 1)
		}
		delete(s.changed, p.PID)
		if s.ends != nil {
			delete(s.ends.former, p.PID)
		}
		s.subjects[p.PID] = one
		s.describe()
		return
	}
	if after, gone := imageOf(p.PID); gone != nil || after != before || errors.Is(err, errUnmapped) {
		return // there will be another time
	}
	if !isRefused {
		sink.Count(refused, 1)
	}
	var about *nameError
	s.refusals[p.PID] = refusal{image: before, final: errors.As(err, &about), again: now.Add(retry)}
}

// subject finds the variables of a process.
func (s *source) subject(p process.Process) (one *subject, err error) {
	if s.tracer != nil {
		return newTraced(p, s.modules, s.tracer)
	}
	if one, err = newSubject(p, s.names, s.modules, s.layouts); err == nil {
		one.writers.cache = &s.provider.cache
		one.writers.refresh(p.PID) // while it has not ended
		one.watch = newWatch(one.variables)
	}
	return one, err
}

// watch probes what reads or writes the variables of a process.
func (s *source) watch(one *subject) error {
	if s.tracer != nil {
		return s.tracer.add(one)
	}
	if err := watchable(one); err != nil {
		return err
	}
	at, _, ok := one.watch.locate(one.memory)
	if !ok {
		return errNoImage
	}
	one.watch.at = at
	if err := s.watcher.add(one); err != nil {
		return err
	}
	// A pointer may have changed before it was watched.
	one.watch.unsettled = true
	if _, _, err := s.follow(one); err != nil {
		s.watcher.remove(one.process.PID)
		return err
	}
	if !one.image.runs(one.process.PID) {
		s.watcher.remove(one.process.PID) // they may be at addresses of another program
		return errNoImage
	}
	return nil
}
