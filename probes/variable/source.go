package variable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/process"
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
	watcher  *watcher        // nil: not watched
	tracer   *tracer         // nil: they are no variables of functions
	rows     *rows
	notices  []string
	cut      uint64 // texts that were longer than what is read of one
	failed   uint64 // and that could not be read at all
	clock    func() int64
	scanned  time.Time

	mu      sync.Mutex // guards what follows
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended
}

func (s *source) Notices() []string   { return s.notices }
func (s *source) Residual() plan.Expr { return s.spec.Filter }
func (s *source) Live() bool          { return true }

// begin starts the goroutine.
func (s *source) begin(ctx context.Context, sink probes.Sink, run func(ctx context.Context, sink probes.Sink) error) {
	s.started = true
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	s.rows.Push = sink.Push
	go func() {
		defer close(s.ended)
		err := run(ctx, sink)
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
	if now.Sub(s.scanned) < rescan {
		return true
	}
	s.scanned = now
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
		}
		if s.subjects[p.PID] == nil {
			s.take(p, now, sink)
		}
	}
	maps.DeleteFunc(s.refusals, func(pid int, _ refusal) bool { return !meant[pid] })
	return s.grows || len(s.numbered) > 0
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
// when it executes something else, or for reasons that pass.
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
		s.subjects[p.PID] = one
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

// watched is a source of writes, and of what variables of functions have.
type watched struct{ *source }

// watchNs is what a write costs that traps: more on a virtual machine.
const watchNs = 18000

// Sites are the variables.
func (s *watched) Sites() []probes.Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracer != nil {
		return s.tracer.sites()
	}
	var sites []probes.Site
	site := func(name, kind string) {
		sites = append(sites, probes.Site{Provider: "variable", Function: name, Method: "watchpoint", Kind: kind, CostNs: watchNs, Estimated: true})
	}
	for _, one := range s.subjects {
		for _, p := range one.watch.points {
			kind := "hardware watchpoint, each thread"
			if p.pointer {
				kind += ": pointer on the way"
			}
			site(p.name, kind)
		}
		return sites
	}
	for _, name := range s.names {
		site(name, "hardware watchpoint, each thread")
	}
	return sites
}

// Start sets the watchpoints.
func (s *watched) Start(ctx context.Context, sink probes.Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	for pid, one := range s.subjects {
		err := s.watch(one)
		if errors.Is(err, errNoImage) {
			delete(s.subjects, pid) // refresh finds the variables of what it executes now
			continue
		}
		if err != nil {
			return placed(err, s.spec)
		}
	}
	s.begin(ctx, sink, s.run)
	return nil
}

func (s *watched) run(ctx context.Context, sink probes.Sink) error {
	timer := time.NewTicker(poll)
	defer timer.Stop()
	for {
		if s.watcher != nil {
			s.watcher.waiter.Wait(poll) // or until a pointer has changed
		} else {
			<-timer.C
		}
		select {
		default:
		case <-s.stop:
			for pid := range s.subjects {
				s.remove(pid) // what was written until now is given
			}
			s.drain(sink)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		now := s.clock() + s.rows.offset
		s.drain(sink)
		sink.Watermark(now - int64(s.spec.Settings.Lateness))
		if !s.refresh(time.Now(), sink) {
			s.drain(sink)
			return nil
		}
	}
}

// drain makes rows of the writes in the ring, and has watchpoints follow what they say.
func (s *source) drain(sink probes.Sink) {
	if s.tracer != nil {
		s.tracer.drain(s.subjects, s.rows, sink)
		return
	}
	s.collect(sink)
	s.settle(sink)
}

// collect makes rows of the writes in the ring.
func (s *source) collect(sink probes.Sink) {
	missed := uint64(0)
	give := func(record []byte) {
		if !s.give(record) {
			missed++
		}
	}
	w := s.watcher
	for end := w.ring.Produced(); w.ring.Drain(end, give) < end; {
		time.Sleep(50 * time.Microsecond) // a record is being written
	}
	s.rows.Flush()
	if missed > 0 {
		sink.Lost(orphaned, missed)
	}
	if s.failed > 0 {
		sink.Lost(unread, s.failed)
		s.failed = 0
	}
	if s.cut > 0 {
		sink.Count(cutTexts, s.cut)
		s.cut = 0
	}
	if n := w.lost(); n > w.told {
		sink.Lost(ringFull, n-w.told)
		w.told = n
		s.unsettle()
	}
	if w.unsure > 0 {
		sink.Count(unsure, w.unsure)
		w.unsure = 0
	}
}

// give makes a row of a write, and reports whether it is known whose.
func (s *source) give(record []byte) bool {
	if len(record) < int(unsafe.Sizeof(bpf.VariableWrite{})) {
		return false
	}
	w := (*bpf.VariableWrite)(unsafe.Pointer(&record[0]))
	one := s.subjects[int(w.Tgid)]
	if one == nil {
		return false
	}
	if int(w.Variable) >= len(one.variables) {
		return false
	}
	v := &one.variables[w.Variable]
	one.watch.unsettled = one.watch.unsettled || w.Moved != 0
	var has value
	switch state(w.State) {
	case present:
		if readings[v.form.kind] != 0 && len(record) >= int(unsafe.Sizeof(bpf.VariableWriteText{})) {
			switch t := (*bpf.VariableWriteText)(unsafe.Pointer(&record[0])); {
			case t.Length == ^uint64(0) && w.Value != 0:
				s.failed++
			case t.Length != ^uint64(0) && t.Length > maxText, v.form.kind == cString && t.Length == maxText-1:
				s.cut++
			}
		}
		bytes := (*[8]byte)(unsafe.Pointer(&w.Value))[:]
		has = v.form.written(bytes, record)
	case unreadable:
		s.failed++
	}
	one.watch.last[w.Variable] = last{int64(w.Time), has}
	s.rows.add(&observation{time: int64(w.Time), subject: one, name: v.name, module: v.module, value: has,
		tid: int(w.Tid), threadName: unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&w.Comm)), len(w.Comm))),
		function: one.writers.function(one.process.PID, w.Ip)})
	return true
}

// unsettle has watchpoints follow their pointers, though no write to these has been seen.
func (s *source) unsettle() {
	for _, one := range s.subjects {
		one.watch.unsettled = one.watch.follows()
	}
}

// sampled is a source of samples.
type sampled struct{ *source }

// sampleNs is what reading a variable costs us, about; its process nothing.
const sampleNs = 700

// Sites are the variables.
func (s *sampled) Sites() []probes.Site { return s.readSites() }

func (s *source) readSites() []probes.Site {
	var sites []probes.Site
	for _, name := range s.names {
		sites = append(sites, probes.Site{Provider: "variable", Function: name, Method: "memory", Kind: "process_vm_readv", CostNs: sampleNs, Estimated: true})
	}
	return sites
}

// Start samples from now on.
func (s *sampled) Start(ctx context.Context, sink probes.Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	s.begin(ctx, sink, s.run)
	return nil
}

// run samples at start + k·Every.
func (s *sampled) run(ctx context.Context, sink probes.Sink) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := int64(1); ; k++ {
		due := start.Add(time.Duration(k) * s.spec.Every)
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			timer.Reset(min(wait, rescan))
			select {
			case <-timer.C:
				sink.Watermark(s.clock() + s.rows.offset)
			case <-s.stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if late := int64(time.Since(due) / s.spec.Every); late > 0 {
			sink.Lost(overrun, uint64(late))
			k += late
		}
		if !s.refresh(time.Now(), sink) {
			return nil
		}
		s.sample(sink)
		sink.Watermark(s.clock() + s.rows.offset)
		select {
		case <-s.stop:
			return nil
		default:
		}
	}
}

// sample makes a row of each variable.
func (s *source) sample(sink probes.Sink) {
	failed := uint64(0)
	for _, one := range s.subjects {
		for _, v := range one.variables {
			value, is := v.read(one.memory)
			if is == unknown || is == unreadable {
				failed++
			}
			if is == unknown {
				continue
			}
			s.rows.add(&observation{time: s.clock(), subject: one, name: v.name, module: v.module, value: value})
		}
	}
	s.rows.Flush()
	if failed > 0 {
		sink.Lost(unread, failed)
	}
}

// demand samples when it is asked to (plan.Acquire.OnDemand), and does nothing in
// between.
type demand struct {
	*source
	sink probes.Sink
}

// Sites are the variables.
func (d *demand) Sites() []probes.Site { return d.readSites() }

// Start has nothing to do.
func (d *demand) Start(_ context.Context, sink probes.Sink) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sink != nil || d.stopped {
		return fmt.Errorf("variable: a source is started once")
	}
	d.sink = sink
	d.rows.Push = sink.Push
	return nil
}

// Sample gives the sink what the variables have at this moment.
func (d *demand) Sample(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sink != nil && !d.stopped {
		d.refresh(time.Now(), d.sink)
		d.sample(d.sink)
	}
	return nil
}

// Stop ends the stream.
func (d *demand) Stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.stopped = true
		d.free()
		if d.sink != nil {
			d.sink.End(nil)
		}
	}
	return nil
}
