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

// Causes counted for values that became no row.
const (
	ringFull  = "ring buffer full"
	cutTexts  = "texts cut off"
	unread    = "variables that could not be read"
	overrun   = "sampler overrun"
	refused   = "processes that could not be watched"
	unsure    = "threads that may not be watched"
	replaced  = "processes that executed another program"
	arrived   = "processes observed only from some time after their start"
	passed    = "processes that ended before they could be observed"
	orphaned  = "writes of processes that are no longer observed"
	withheld  = "writes whose report was lost by the hypervisor"
	trapped   = "programs that were ended by SIGTRAP, as they are when a hypervisor loses the report of a write"
	unguarded = "programs that had no guard against SIGTRAP, since something else traced them"
)

const (
	poll   = 10 * time.Millisecond  // interval of reading the ring
	rescan = 100 * time.Millisecond // interval of resolving names and executables to processes
	retry  = time.Second            // interval of trying refused processes again
)

// refusal is why a process of the target is not observed.
type refusal struct {
	image image // the image that was refused
	final bool  // not worth trying again
	again time.Time
}

// source is what both methods of observation share: processes with variables,
// and one goroutine that alone uses them and the sink, from Start until Stop,
// until the context ends, or until all processes given by pid have ended.
type source struct {
	probes.Base
	provider *Provider
	spec     *plan.Acquire
	names    []string
	modules  []string
	matcher  *process.Matcher
	grows    bool           // more processes may match later
	numbered map[int]uint64 // processes given by pid, whatever they execute: their start times
	subjects map[int]*subject
	layouts  *layouts
	refusals map[int]refusal // of processes of the target that are not observed
	changed  map[int]bool    // those of numbered that were subjects and executed another program
	loads    bool            // see awaits
	watcher  *watcher        // nil: no watchpoints are used
	tracer   *tracer         // nil: the variables are not local
	ends     *ends           // nil: no process can be missed, or the kernel does not report ends
	rows     *rows.Writer[observation]
	notices  []string
	cut      uint64 // texts longer than the limit
	failed   uint64 // texts that could not be read
	clock    func() int64
	scanned  time.Time
	sites    atomic.Pointer[[]probes.Site] // current probe sites

	mu      sync.Mutex // guards the fields below
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended
}

// info returns the Info of a source with these sites.
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

// Stop implements probes.Source.
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
	if s.ends != nil { // it was never started
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

// refresh adds processes that match now, and removes those that have ended or
// execute something else; it reports whether more may match later.
func (s *source) refresh(now time.Time, sink probes.Sink) bool {
	if pause := now.Sub(s.scanned); pause < poll || pause < rescan && !s.awaits() {
		return true
	}
	s.scanned = now
	s.countUnseen(sink)
	s.markOutdated() // kernel writes to pointers are not seen
	changed := s.forget(sink)
	all, err := s.candidates()
	if err != nil {
		return true // tried again at the next interval
	}
	meant := map[int]bool{}
	for _, p := range all {
		if !s.includes(p) || !process.Visible(s.spec.Target.Viewer, p.PID) {
			delete(s.numbered, p.PID)
			continue
		}
		meant[p.PID] = true
		if changed[p.PID] {
			sink.Count(replaced, 1)
			s.changed[p.PID] = true
		}
		if s.subjects[p.PID] == nil {
			s.observe(p, now, sink)
		} else if s.watcher != nil {
			s.watcher.guard(p.PID) // a launcher or a debugger may have let go
		}
	}
	s.dropRefusals(meant)
	s.ends.trim(meant, now)
	maps.DeleteFunc(s.changed, func(pid int, _ bool) bool { return !meant[pid] })
	return s.grows || len(s.numbered) > 0
}

// dropRefusals forgets the refused processes that are not meant any more.
func (s *source) dropRefusals(meant map[int]bool) {
	for pid := range s.refusals {
		if !meant[pid] {
			delete(s.refusals, pid)
			s.ends.leave(pid)
		}
	}
}

// awaits reports whether a process given by pid has only begun and may still
// load what is observed. For a while refresh then runs more often.
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

// forget removes the subjects that have ended or execute something else, once
// all their writes are delivered; it returns the latter.
func (s *source) forget(sink probes.Sink) (changed map[int]bool) {
	changed = map[int]bool{}
	var gone []*subject
	for pid, one := range s.subjects {
		p, ok := process.Lookup(pid)
		switch {
		case !ok || p.StartTime != one.process.StartTime || !process.Visible(s.spec.Target.Viewer, pid):
			s.countTrapped(pid, sink)
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
		s.ends.leave(one.process.PID)
		if s.tracer != nil {
			s.tracer.forget(one.process.PID)
		}
	}
	return changed
}

// countTrapped counts a process that was ended by SIGTRAP while it was watched.
func (s *source) countTrapped(pid int, sink probes.Sink) {
	if s.watcher != nil && s.watcher.trapped(pid) {
		sink.Count(trapped, 1)
	}
}

// probes reports whether processes are probed, not sampled.
func (s *source) probes() bool { return s.watcher != nil || s.tracer != nil }

// remove removes the probes of a process.
func (s *source) remove(pid int) {
	if s.tracer != nil {
		s.tracer.remove(pid)
	} else {
		s.watcher.remove(pid)
	}
}

// candidates returns the processes that may be in the target.
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

// includes reports whether a process is in the target.
func (s *source) includes(p process.Process) bool {
	start, ok := s.numbered[p.PID]
	return ok && start == p.StartTime || s.grows && s.matcher.Matches(p)
}

// observe starts observing a process. A failure is counted once; it is tried again
// when the process executes something else, or after retry if the reason is
// transient. A process that appeared since, by a fork or an exec, may have
// written already, which is counted.
func (s *source) observe(p process.Process, now time.Time, sink probes.Sink) {
	if s.ends.isOver(p.PID) {
		return
	}
	last, isRefused := s.refusals[p.PID]
	isRefused = isRefused && last.image.runs(p.PID)
	if isRefused && (last.final || now.Before(last.again)) {
		return
	}
	before, err := imageOf(p.PID)
	if err != nil {
		return // it has ended, or is in execve
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
			delete(s.ends.awaited, p.PID)
		}
		s.subjects[p.PID] = one
		s.describe()
		return
	}
	if after, gone := imageOf(p.PID); gone != nil || after != before || errors.Is(err, errUnmapped) {
		return // tried again at the next interval
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
		one.writers.refresh(p.PID) // before it ends
		one.watch = newWatch(one.variables)
	}
	return one, err
}

// watch attaches the probes for the variables of a process.
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
	one.watch.outdated = true
	if _, _, err := s.follow(one); err != nil {
		s.watcher.remove(one.process.PID)
		return err
	}
	if !one.image.runs(one.process.PID) {
		s.watcher.remove(one.process.PID) // the addresses may be those of another program
		return errNoImage
	}
	return nil
}
