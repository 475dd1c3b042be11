package entities

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
)

// leastRetold is how long it is at least from one time that everything is told anew
// for those who are too slow, to the next.
const leastRetold = time.Second

// source gives the rows of one query.
type source struct {
	spec    *plan.Acquire
	parts   []*part // the first tells of threads
	library *library
	notices []string
	retell  atomic.Bool   // somebody missed what was told
	done    chan struct{} // closed when the stream has ended

	mu      sync.Mutex // guards what follows, and the use of the parts' rows
	merge   merge
	world   *world
	rows    *rows
	sink    probes.Sink
	begun   bool
	over    bool
	given   int64
	retold  int64 // when it was
	err     error
	looking map[int]int64 // times of modules that are being read
	looks   int
}

func newSource(spec *plan.Acquire, l *library) *source {
	s := &source{spec: spec, library: l, done: make(chan struct{}), looking: map[int]int64{}, rows: newRows(spec.Out)}
	s.world = newWorld(s.rows.add)
	s.world.offset = clock.Offset()
	s.world.look, s.world.who = lookAt, nameOf
	return s
}

// add prepares a part.
func (s *source) add(ctx context.Context, from probes.Provider, stream string, target plan.Target, sel plan.Expr, d decoder) error {
	spec := *s.spec
	spec.Stream, spec.Target, spec.Select, spec.Every = stream, target, sel, 0
	spec.Filter, spec.FilterOnly, spec.Partial = nil, nil, nil
	spec.Out = plan.Schema{Time: 0, Fields: d.fields}
	src, err := from.Prepare(ctx, &spec)
	if err != nil {
		var refused *plan.Error
		if errors.As(err, &refused) { // in the user's words
			if rest, ok := strings.CutPrefix(refused.Msg, stream+" "); ok {
				refused.Msg = s.spec.Stream + " " + rest
			}
		}
		return err
	}
	s.parts = append(s.parts, &part{of: s, source: src, decode: d})
	return nil
}

// readExecutables learns what the functions of the target's executables do to
// objects; native is false if all are programs of Go.
func (s *source) readExecutables(running []process.Process) (native bool, err error) {
	read := map[string]bool{}
	learn := func(path string, open func() (*os.File, error)) error {
		if read[path] {
			return nil
		}
		read[path] = true
		f, err := open()
		if err != nil {
			return err
		}
		defer f.Close()
		ok, err := s.library.executable(f, path)
		native = native || ok
		return err
	}
	for _, p := range running {
		err := learn(p.Exe, func() (*os.File, error) {
			mappings, err := process.Modules(p.PID)
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(mappings, func(m process.Mapping) bool { return m.Path == p.Exe })
			if i < 0 {
				return nil, fmt.Errorf("process %d (%s) has not mapped its executable %s as code", p.PID, p.Comm, p.Exe)
			}
			return process.OpenModule(p.PID, mappings[i])
		})
		if err != nil {
			if _, runs := process.Lookup(p.PID); runs {
				return false, plan.Errorf(s.spec.Start, s.spec.Stop, "%v", err)
			}
		}
	}
	for _, path := range s.spec.Target.Exes {
		if err := learn(path, func() (*os.File, error) { return process.OpenExe(path) }); err != nil && len(read) == 0 {
			return false, err
		}
	}
	return native || len(read) == 0, nil
}

// Sites are those of all parts.
func (s *source) Sites() []probes.Site {
	var out []probes.Site
	for _, p := range s.parts {
		out = append(out, p.source.Sites()...)
	}
	return out
}

// Notices are those of all parts.
func (s *source) Notices() []string {
	out := slices.Clone(s.notices)
	for _, p := range s.parts {
		out = append(out, p.source.Notices()...)
	}
	return out
}

// Refusal is that of a part.
func (s *source) Refusal() error {
	for _, p := range s.parts {
		if e, ok := p.source.(probes.Estimator); ok && e.Refusal() != nil {
			return e.Refusal()
		}
	}
	return nil
}

func (s *source) Residual() plan.Expr { return s.spec.Filter }
func (s *source) Live() bool          { return true }

// Retell implements probes.Reteller.
func (s *source) Retell() { s.retell.Store(true) }

// Start starts the parts, and then looks at what there is: who comes in between is
// met twice, which does no harm.
func (s *source) Start(ctx context.Context, sink probes.Sink) error {
	from := clock.Now()
	s.mu.Lock()
	s.sink, s.rows.push = sink, sink.Push
	s.given = math.MinInt64
	s.mu.Unlock()
	for i, p := range s.parts {
		if err := p.source.Start(ctx, p); err != nil {
			s.mu.Lock()
			s.over = true // Start's error says it all
			s.mu.Unlock()
			for _, started := range s.parts[:i] {
				_ = started.source.Stop()
			}
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.now = from
	s.survey()
	s.begun = true
	s.release()
	return nil
}

// survey takes in the processes, threads and modules that there are. mu is held.
func (s *source) survey() {
	running, err := process.Resolve(s.spec.Target)
	if err != nil {
		return // it has ended, which its parts tell
	}
	for _, p := range running {
		for _, t := range threadsOf(p.PID) {
			s.world.start(p.PID, t.tid, t.name, t.ticks, nil)
		}
		if s.world.programs[p.PID] == nil || !s.world.entities[typeCategory] || s.world.byUse {
			continue
		}
		if modules, err := s.library.of(p.PID); err == nil {
			s.world.map_(s.world.programs[p.PID], nil, modules)
		}
	}
}

// means reports whether a process is one of the target. Of some parts the target is
// larger.
func (s *source) means(pid int) bool {
	t := &s.spec.Target
	return len(t.PIDs) == 0 || len(t.Processes)+len(t.Exes) > 0 || slices.Contains(t.PIDs, pid)
}

// look finds out what a process has mapped, for a time at which that has changed;
// until it is known nothing later is told. mu is held.
func (s *source) look(pid int, t int64) {
	if !s.world.entities[typeCategory] || s.world.byUse || s.over {
		return
	}
	s.looks++
	number := s.looks
	s.looking[number] = t
	go func() {
		modules, err := s.library.of(pid)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, number)
		if err == nil {
			s.merge.add(happening{time: t, kind: mapped, pid: pid, tid: pid, modules: modules})
		}
		s.release()
	}()
}

// release tells of what all parts have passed. mu is held.
func (s *source) release() {
	if !s.begun || s.over {
		return
	}
	t, open := int64(math.MaxInt64), len(s.looking) > 0
	for _, p := range s.parts {
		t = min(t, p.mark)
		open = open || !p.over
	}
	for _, when := range s.looking {
		t = min(t, when)
	}
	for {
		h, ok := s.merge.next(t)
		if !ok {
			break
		}
		if h.kind == doubtful {
			s.doubt(h)
			continue
		}
		s.world.happen(h)
	}
	if !open {
		s.rows.flush()
		s.over = true
		close(s.done)
		s.sink.End(s.err)
		return
	}
	if t == math.MaxInt64 {
		return
	}
	if s.world.activity {
		s.world.pass(t)
	}
	if t-s.retold > int64(leastRetold) && s.retell.Swap(false) {
		s.retold = t
		s.world.now = max(s.world.now, t)
		s.world.retell()
	}
	s.rows.flush()
	if t > s.given {
		s.given = t
		s.sink.Watermark(t)
	}
}

// doubt is where events were lost: what may have ended, ends, and what there is, is
// told anew.
func (s *source) doubt(h happening) {
	w := s.world
	w.now = max(w.now, h.time)
	w.doubt()
	for _, p := range w.inOrder() {
		there := map[string]bool{}
		for _, t := range threadsOf(p.pid) {
			there[threadID(t.tid, t.ticks)] = true
		}
		for _, t := range p.threads {
			if !there[t.id] {
				w.end(t)
			}
		}
	}
	s.survey()
	s.rows.flush()
	s.sink.Lost(h.cause, h.lost)
	w.retell()
}

// Stop ends the stream.
func (s *source) Stop() error {
	s.stopParts()
	s.mu.Lock()
	wait := s.begun
	s.mu.Unlock()
	if wait {
		<-s.done
	}
	return nil
}

func (s *source) stopParts() {
	var all sync.WaitGroup
	for _, p := range s.parts {
		all.Go(func() { _ = p.source.Stop() }) // its End says why it could not
	}
	all.Wait()
}

// taskThread is a thread as /proc tells it.
type taskThread struct {
	tid   int
	name  string
	ticks uint64
}

// threadsOf lists the threads of a process.
func threadsOf(pid int) []taskThread {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil
	}
	var out []taskThread
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if name, ticks, ok := lookAt(pid, tid); ok {
			out = append(out, taskThread{tid, name, ticks})
		}
	}
	return out
}

// lookAt is what a thread is called, and when it was made.
func lookAt(pid, tid int) (name string, ticks uint64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	var st process.Stat
	if err != nil || !process.ParseStat(b, &st) || st.State == 'X' || st.State == 'Z' && tid != pid {
		return "", 0, false
	}
	return string(st.Comm), st.StartTime, true
}

// nameOf is what a process is called, and what it executes.
func nameOf(pid int) (name, exe string) {
	p, _ := process.Lookup(pid)
	return p.Comm, p.Exe
}

var (
	_ probes.Estimator = (*source)(nil)
	_ probes.Reteller  = (*source)(nil)
	_ probes.Sink      = (*part)(nil)
)
