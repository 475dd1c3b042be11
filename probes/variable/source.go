package variable

import (
	"context"
	"fmt"
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
	unread   = "variables that could not be read"
	overrun  = "sampler overrun"
	refused  = "processes that could not be watched"
)

const (
	poll   = 10 * time.Millisecond  // how often writes are looked for
	rescan = 100 * time.Millisecond // and processes that a name or an executable means
)

// source is what both ways of observing have in common: processes with variables,
// and a goroutine that alone uses them and the sink from Start until Stop, until the
// context ends, or until every process named by number has ended.
type source struct {
	provider *Provider
	spec     *plan.Acquire
	names    []string
	modules  []string
	matcher  *process.Matcher
	grows    bool // there may be more processes later
	subjects map[int]*subject
	watcher  *watcher // nil: sampled
	rows     *rows
	clock    func() int64
	scanned  time.Time

	mu      sync.Mutex // guards what follows
	started bool
	stopped bool
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when the goroutine has ended
}

func (s *source) Notices() []string   { return nil }
func (s *source) Residual() plan.Expr { return s.spec.Filter }
func (s *source) Live() bool          { return true }

// begin starts the goroutine.
func (s *source) begin(ctx context.Context, sink probes.Sink, run func(ctx context.Context, sink probes.Sink) error) {
	s.started = true
	s.stop, s.ended = make(chan struct{}), make(chan struct{})
	s.rows.push = sink.Push
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
	for _, one := range s.subjects {
		one.writers.close()
	}
}

// refresh takes in processes that are meant now, and forgets those that have ended;
// it reports whether there may be any more.
func (s *source) refresh(now time.Time, sink probes.Sink) bool {
	if now.Sub(s.scanned) < rescan {
		return true
	}
	s.scanned = now
	for pid, one := range s.subjects {
		if p, ok := process.Lookup(pid); !ok || p.StartTime != one.process.StartTime || !process.Visible(s.spec.Target.Viewer, pid) {
			if s.watcher != nil {
				s.watcher.remove(pid)
			}
			one.writers.close()
			delete(s.subjects, pid)
		}
	}
	if !s.grows {
		return len(s.subjects) > 0
	}
	all, err := process.List()
	if err != nil {
		return true // there will be another time
	}
	for _, p := range all {
		if s.subjects[p.PID] != nil || !s.matcher.Matches(p) || !process.Visible(s.spec.Target.Viewer, p.PID) {
			continue
		}
		one, err := newSubject(p, s.names, s.modules)
		if err != nil {
			continue // it is only about to execute the program, or has ended
		}
		one.writers.cache = &s.provider.cache
		if s.watcher != nil {
			if err := s.watch(one); err != nil {
				sink.Count(refused, 1)
				continue
			}
		}
		s.subjects[p.PID] = one
	}
	return true
}

// watch sets watchpoints on the variables of a process.
func (s *source) watch(one *subject) error {
	if err := watchable(one); err != nil {
		return err
	}
	variables := make([]located, len(one.variables))
	for i, v := range one.variables {
		variables[i] = located{v.addr, v.form.size}
	}
	return s.watcher.add(one.process.PID, variables)
}

// watched is a source of writes.
type watched struct {
	*source
	lost uint64
}

// watchNs is what a write costs that traps: more on a virtual machine.
const watchNs = 18000

// Sites are the variables.
func (s *watched) Sites() []probes.Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sites []probes.Site
	for _, name := range s.names {
		sites = append(sites, probes.Site{Provider: "variable", Function: name, Method: "watchpoint", Kind: "hardware watchpoint, each thread", CostNs: watchNs, Estimated: true})
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
	for _, one := range s.subjects {
		if err := s.watch(one); err != nil {
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
		select {
		case <-timer.C:
		case <-s.stop:
			for pid := range s.subjects {
				s.watcher.remove(pid) // what was written until now is given
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

// drain makes rows of the writes in the ring.
func (s *watched) drain(sink probes.Sink) {
	for end := s.watcher.ring.Produced(); s.watcher.ring.Drain(end, s.give) < end; {
		time.Sleep(50 * time.Microsecond) // a record is being written
	}
	s.rows.flush()
	if n := s.watcher.lost(); n > s.lost {
		sink.Lost(ringFull, n-s.lost)
		s.lost = n
	}
}

func (s *watched) give(record []byte) {
	if len(record) < int(unsafe.Sizeof(bpf.VariableWrite{})) {
		return
	}
	w := (*bpf.VariableWrite)(unsafe.Pointer(&record[0]))
	one := s.subjects[int(w.Tgid)]
	if one == nil {
		return
	}
	for i, v := range one.variables {
		if v.addr != w.Addr {
			continue
		}
		bytes := (*[8]byte)(unsafe.Pointer(&w.Value))[:]
		s.rows.add(&observation{time: int64(w.Time), subject: one, variable: i, value: v.form.read(bytes, one.memory),
			tid: int(w.Tid), threadName: unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&w.Comm)), len(w.Comm))),
			function: one.writers.function(one.process.PID, w.Ip)})
		return
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
		for i, v := range one.variables {
			b := one.memory(v.addr, v.form.size)
			if b == nil {
				failed++
				continue
			}
			s.rows.add(&observation{time: s.clock(), subject: one, variable: i, value: v.form.read(b, one.memory)})
		}
	}
	s.rows.flush()
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
	d.rows.push = sink.Push
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
