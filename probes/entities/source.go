package entities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/rows"
)

// minResendInterval is the minimum interval between two complete reports of live
// entities for consumers that missed rows.
const minResendInterval = time.Second

// source produces the rows of one query.
type source struct {
	spec    *plan.Acquire
	parts   []*part // the first is that of threads
	library *library
	mapped  func(pid int) (_ []moduleTypes, unread int, _ error) // library.of
	notices []string
	resend  atomic.Bool   // a consumer has missed rows
	done    chan struct{} // closed when the stream has ended

	mu         sync.Mutex // guards the fields below, and the use of the parts' rows
	merge      merge
	world      *world
	rows       *rows.Writer[row]
	sink       probes.Sink
	begun      bool
	first      *inventory // inventory at the start, if not applied yet; else nil
	from       int64      // time of the first inventory
	ended      bool
	given      int64
	lastResend int64 // time of the last complete report
	err        error
	stopping   bool // Stop was called on the parts
	looking    map[*look]struct{}
	lookingAt  map[int]*look     // by process: the last one begun
	lost       map[string]uint64 // events lost and not handled yet, by cause
	inspecting *look
	suspended  suspension

	calls   *part            // the part that follows calls of native programs; nil: none
	entries map[place]uint64 // functions that it probes
}

// look is an inventory under way as of time. Events after time wait until it is
// done.
type look struct {
	time  int64
	again int64 // time of the first change since then, which needs another look; 0: none
}

// Causes of losses and counts.
const (
	queueFull    = "entity event queue full"
	notReadTypes = "modules whose types could not be read"
	notFound     = "failed searches for calls under way"
)

func newSource(spec *plan.Acquire, l *library) (*source, error) {
	w, err := tables[spec.Stream].Writer(spec, 0)
	if err != nil {
		return nil, err
	}
	s := &source{spec: spec, library: l, mapped: l.modulesOf, done: make(chan struct{}),
		looking: map[*look]struct{}{}, lookingAt: map[int]*look{}, lost: map[string]uint64{}, rows: w}
	s.world = newWorld(s.rows.Put)
	s.world.offset = clock.Offset()
	s.world.look, s.world.lookupNames = lookAt, nameOf
	return s, nil
}

// add prepares a part.
func (s *source) add(ctx context.Context, from probes.Provider, stream string, target plan.Target, sel plan.Expr, d decoder) error {
	spec := *s.spec
	spec.Stream, spec.Target, spec.Select, spec.Every = stream, target, sel, 0
	spec.Filter, spec.FilterOnly, spec.Partial = nil, nil, nil
	spec.Out = types.Schema{Time: 0, Fields: d.fields}
	src, err := from.Prepare(ctx, &spec)
	if err != nil {
		var refused *plan.Error
		if errors.As(err, &refused) { // in terms of the user's query
			if rest, ok := strings.CutPrefix(refused.Msg, stream+" "); ok {
				refused.Msg = s.spec.Stream + " " + rest
			}
		}
		return err
	}
	s.parts = append(s.parts, &part{owner: s, source: src, decode: d})
	return nil
}

// readExecutables records the constructors and destructors of the target's
// executables; native is false if all are Go programs.
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
			if process.Executes(p) {
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

// Info implements probes.Source. Sites, notices and refusals are those of all
// parts. The source is not shared, gated or armed in advance, whatever its
// parts support: its rows depend on the state at its start.
func (s *source) Info() probes.Info {
	i := probes.Info{Notices: slices.Clone(s.notices), Residual: s.spec.Filter, Live: true, Suspends: true, Resends: true}
	for _, p := range s.parts {
		of := p.source.Info()
		i.Sites = append(i.Sites, of.Sites...)
		i.Notices = append(i.Notices, of.Notices...)
		if i.Refusal == nil {
			i.Refusal = of.Refusal
		}
	}
	return i
}

// Load implements probes.Source: it is forwarded to all parts.
func (s *source) Load(ctx context.Context, _ probes.Options) error {
	for _, p := range s.parts {
		if err := p.source.Load(ctx, p.options); err != nil {
			return err
		}
	}
	return nil
}

// Control implements probes.Source. The source handles Resend itself. Suspend
// is translated: it is forwarded to the part that follows calls, and the calls
// missed are found on the stacks at its end. All other commands are refused,
// see Info.
func (s *source) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	switch c := c.(type) {
	case probes.Resend:
		s.resend.Store(true)
	case probes.Suspend:
		s.suspend(c)
	default:
		return probes.Unsupported(c)
	}
	return probes.Reply{}, nil
}

// Stats implements probes.Source. It is empty: most events of the parts become
// no rows.
func (s *source) Stats() probes.Stats { return probes.Stats{} }

// Start starts the parts, and then takes an inventory. An entity that appears
// in between is seen twice, which is harmless.
func (s *source) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	from := clock.Now()
	s.mu.Lock()
	s.sink, s.rows.Push = sink, sink.Push
	s.given = math.MinInt64
	s.mu.Unlock()
	for i, p := range s.parts {
		if err := p.source.Start(ctx, p, p.options); err != nil {
			s.mu.Lock()
			s.ended = true // Start returns the error
			s.mu.Unlock()
			for _, started := range s.parts[:i] {
				_ = started.source.Stop()
			}
			return err
		}
	}
	there := s.survey(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.from, s.begun = there, from, true
	if s.suspended.any() {
		s.applySuspension(suspension{})
	}
	s.stopIfOver()
	s.release()
	return nil
}

// inventory is the processes, threads, modules and open calls at one time.
type inventory struct {
	running []int                 // processes of the target
	threads map[int][]taskThread  // by process
	modules map[int][]moduleTypes // by process; nil: unknown
	unread  int                   // number of modules that could not be read
	stands  []openCalls           // open calls of threads when their stacks were read
	blind   bool                  // stacks could not be read
}

// survey takes an inventory of the target, and of the threads of the processes
// also. It reads all modules, which may take long, and mu is not held: the
// parts' readers take it, and they serve other queries, too.
func (s *source) survey(also []int) *inventory {
	there := &inventory{threads: map[int][]taskThread{}, modules: map[int][]moduleTypes{}}
	for _, pid := range also {
		there.threads[pid] = threadsOf(pid)
	}
	running, err := process.Resolve(s.spec.Target)
	if err != nil {
		return there // it has ended; its parts report that
	}
	defer s.surveyCalls(there, running)
	for _, p := range running {
		there.running = append(there.running, p.PID)
		there.threads[p.PID] = threadsOf(p.PID)
		if s.hasTypes() {
			modules, unread, err := s.mapped(p.PID)
			there.unread += unread
			if err == nil {
				there.modules[p.PID] = modules
			}
		}
	}
	return there
}

// hasTypes reports whether the mappings of processes matter.
func (s *source) hasTypes() bool { return s.world.entities[typeCategory] && !s.world.byUse }

// applyInventory applies an inventory. The caller holds mu.
func (s *source) applyInventory(there *inventory) {
	for _, pid := range there.running {
		for _, t := range there.threads[pid] {
			s.world.start(pid, t.tid, t.name, t.ticks, nil)
		}
		if modules := there.modules[pid]; modules != nil && s.world.programs[pid] != nil {
			s.world.map_(s.world.programs[pid], nil, modules)
		}
	}
	s.countUnread(there.unread)
	if there.blind && !s.ended {
		s.sink.Count(notFound, 1)
	}
	s.world.applyFrames(there.stands, enteredBefore(&s.merge, there.stands))
}

// countUnread counts modules that could not be read. The caller holds mu.
func (s *source) countUnread(n int) {
	if n > 0 && !s.ended {
		s.sink.Count(notReadTypes, uint64(n))
	}
}

// inTarget reports whether a process is in the target. The targets of some parts
// are larger.
func (s *source) inTarget(pid int) bool {
	t := &s.spec.Target
	return len(t.PIDs) == 0 || t.Grows() || slices.Contains(t.PIDs, pid)
}

// look reads the mappings of a process after they have changed; later events
// wait until it is done. All changes during a look cause one more look. A
// program that is executed has its own, since it starts without mappings. The
// caller holds mu.
func (s *source) look(h event) {
	if !s.hasTypes() || s.ended {
		return
	}
	if l := s.lookingAt[h.pid]; l != nil && h.kind == mapped {
		if l.again == 0 {
			l.again = h.time
		}
		return
	}
	s.beginLook(h.pid, h.time)
}

// beginLook starts a look. The caller holds mu.
func (s *source) beginLook(pid int, t int64) {
	l := &look{time: t}
	s.looking[l], s.lookingAt[pid] = struct{}{}, l
	go func() {
		modules, unread, err := s.mapped(pid)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, l)
		if s.lookingAt[pid] == l {
			delete(s.lookingAt, pid)
		}
		s.countUnread(unread)
		if err == nil {
			s.merge.add(event{time: t, kind: mapped, pid: pid, tid: pid, modules: modules})
		}
		if l.again != 0 && !s.ended {
			s.beginLook(pid, l.again)
		}
		s.release()
	}()
}

// inspect takes an inventory after events were lost. Losses during an inventory
// are left to the next one. The caller holds mu.
func (s *source) inspect() {
	if s.inspecting != nil || s.ended || len(s.lost) == 0 || s.merge.full() {
		return
	}
	h := event{time: clock.Now(), kind: doubtful, losses: s.lost}
	s.lost = map[string]uint64{}
	l := &look{time: h.time}
	s.looking[l], s.inspecting = struct{}{}, l
	known := slices.Collect(maps.Keys(s.world.programs))
	go func() {
		h.there = s.survey(known)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.looking, l)
		s.inspecting = nil
		s.merge.add(h)
		s.inspect()
		s.release()
	}()
}

// release turns the events that all parts have passed into rows. The caller
// holds mu.
func (s *source) release() {
	if !s.begun || s.ended {
		return
	}
	t, open := int64(math.MaxInt64), false
	for _, p := range s.parts {
		t = min(t, p.mark)
		open = open || !p.ended
	}
	for l := range s.looking {
		t = min(t, l.time)
	}
	if s.first != nil && t > lastLook(s.first.stands) {
		s.world.now = s.from
		s.applyInventory(s.first)
		s.first = nil
	}
	for s.first == nil {
		// An inventory is applied when all events until then have arrived.
		if next := s.merge.first(); next != nil && next.there != nil && t <= lastLook(next.there.stands) {
			t = min(t, next.time)
		}
		h, ok := s.merge.next(t)
		if !ok {
			break
		}
		switch h.kind {
		case doubtful:
			s.handleLoss(h)
		case resuming:
			s.world.now = max(s.world.now, h.time)
			s.applyInventory(h.there)
			s.world.suspension = h.suspension
		default:
			s.world.apply(h)
		}
	}
	if s.first != nil {
		t = min(t, s.from)
	}
	s.inspect() // events that did not fit were lost; now there is room
	if open = open || len(s.looking) > 0; !open {
		s.rows.Flush()
		s.ended = true
		close(s.done)
		s.sink.End(s.err)
		return
	}
	if t == math.MaxInt64 {
		return
	}
	if s.world.activity {
		s.world.emitWaits(t)
	}
	if t-s.lastResend > int64(minResendInterval) && s.resend.Swap(false) {
		s.lastResend = t
		s.world.now = max(s.world.now, t)
		s.world.resend()
	}
	s.rows.Flush()
	if t > s.given {
		s.given = t
		s.sink.Watermark(t)
	}
}

// handleLoss handles lost events: what may have ended ends as UNKNOWN, and live
// entities are reported again. The caller holds mu.
func (s *source) handleLoss(h event) {
	w := s.world
	w.now = max(w.now, h.time)
	w.endDoubtful()
	for _, p := range w.inOrder() {
		there := map[string]bool{}
		threads, ok := h.there.threads[p.pid]
		if !ok { // created just before the loss
			threads = threadsOf(p.pid)
		}
		for _, t := range threads {
			there[threadID(t.tid, t.ticks)] = true
		}
		for _, t := range p.threads {
			if !there[t.id] {
				w.end(t)
			}
		}
	}
	s.applyInventory(h.there)
	s.rows.Flush()
	for _, cause := range slices.Sorted(maps.Keys(h.losses)) {
		s.sink.Lost(cause, h.losses[cause])
	}
	w.resend()
}

// Stop implements probes.Source.
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

// stopIfOver stops all parts when the part of threads has ended, and with it
// the target, or when one has failed. The caller holds mu.
func (s *source) stopIfOver() {
	if !s.stopping && (s.parts[0].ended || s.err != nil) {
		s.stopping = true
		go s.stopParts()
	}
}

func (s *source) stopParts() {
	var all sync.WaitGroup
	for _, p := range s.parts {
		all.Go(func() { _ = p.source.Stop() }) // its End reports the error
	}
	all.Wait()
}

var (
	_ probes.Source = (*source)(nil)
	_ probes.Sink   = (*part)(nil)
)
