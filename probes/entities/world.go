package entities

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// world is the state of all live entities. It takes events in order of
// time, and emits rows.
type world struct {
	// emit receives the rows, in order.
	emit func(row)
	// look reads the name of a thread whose start was not seen, and when it was
	// created; ok is false if it has ended.
	look func(pid, tid int) (name string, ticks uint64, ok bool)
	// lookupNames returns the name and the executable of a process.
	lookupNames func(pid int) (name, exe string)
	// owner returns the thread that holds a Java monitor, and the latest time
	// since when; nil: unknown. later queues an event at a time that was not
	// passed yet.
	owner   func(pid int, monitor uint64) (tid int, at int64, ok bool)
	enqueue func(event)
	// onExit is called when a process has ended or executes another program; may
	// be nil.
	onExit func(pid int)
	// offset from the boot clock to that of events, in ns
	offset    int64
	structors map[string]structor // functions by name
	// byUse makes types exist from the first call of one of their methods.
	byUse bool
	// entities (by category) and activity select the rows to emit.
	entities map[string]bool // by category
	activity bool

	suspension suspension
	now        int64 // time of the last event
	programs   map[int]*program
	types      map[string]*class
	lives      map[string]int // number of lives of a type's name so far
	typed      int            // number of types so far
}

// program is a process.
type program struct {
	pid       int
	name, exe string
	threads   map[int]*thread
	objects   map[uint64]*object
	made      uint64              // number of objects so far
	modules   map[string][]string // types by file
	locks     map[uint64]*lock
	used      map[string]bool // types known by use; see byUse
}

// thread is a live thread.
type thread struct {
	program *program
	tid     int
	id      string
	name    string
	calls   sequence
	made    uint64 // number of invocations so far
	request *request
	awaits  *await // Java wait; nil: none
}

func newWorld(emit func(row)) *world {
	return &world{emit: emit, entities: map[string]bool{}, programs: map[int]*program{}, types: map[string]*class{}, lives: map[string]int{}}
}

// clockTick is the unit of start times in /proc.
const clockTick = int64(10 * time.Millisecond)

// threadID returns the identity of a thread: its number and its creation time.
func threadID(tid int, ticks uint64) string {
	return strconv.Itoa(tid) + "#" + strconv.FormatUint(ticks, 10)
}

// apply applies an event.
func (w *world) apply(h event) {
	w.now = max(w.now, h.time)
	switch h.kind {
	case started:
		by := w.known(h.pid, h.parent)
		if by == nil {
			by = w.anywhere(h.parent)
		}
		w.fork(w.start(h.pid, h.tid, h.name, w.ticks(h), by), by)
		w.programs[h.pid].called(h)
	case ended:
		if t := w.known(h.pid, h.tid); t != nil {
			w.end(t)
		}
	case renamed:
		w.rename(w.thread(h), h.name)
	case executed:
		w.execute(w.thread(h), h)
	case entered:
		w.enter(w.thread(h), h)
	case suspending:
		w.suspension = h.suspension
	case left, unwound, over:
		if t := w.known(h.pid, h.tid); t != nil {
			w.leave(t, h)
		}
	case missed:
		if t := w.known(h.pid, h.tid); t != nil {
			w.callsMissed(t, h.depth)
		}
	case owned:
		if t := w.known(h.pid, h.tid); t != nil {
			w.own(t, h.arg1)
		}
	case unloaded:
		if p := w.programs[h.pid]; p != nil {
			w.unload(p, w.known(h.pid, h.tid), h.name)
		}
	case locking:
		w.beginLock(w.thread(h), h)
	case locked:
		if t := w.known(h.pid, h.tid); t != nil {
			w.endLock(t, h)
		}
	case freed:
		if p := w.programs[h.pid]; p != nil && p.objects[h.arg0] != nil {
			w.reclaimObject(p, w.known(h.pid, h.tid), p.objects[h.arg0], reclaim)
		}
	case mapped:
		if p := w.programs[h.pid]; p != nil {
			w.map_(p, w.known(h.pid, h.tid), h.modules)
		}
	}
}

// event emits a row at the current time, if its category is selected.
func (w *world) event(p *program, on *thread, r row) {
	if r.category == "" != w.activity || r.category != "" && !w.entities[r.category] {
		return
	}
	r.time, r.program, r.thread = w.now, p, on
	w.emit(r)
}

// program returns the process with a number, and creates it if needed.
func (w *world) program(pid int) *program {
	p := w.programs[pid]
	if p == nil {
		p = &program{pid: pid, threads: map[int]*thread{}, objects: map[uint64]*object{}, modules: map[string][]string{}, locks: map[uint64]*lock{}, used: map[string]bool{}}
		p.name, p.exe = w.lookupNames(pid)
		w.programs[pid] = p
	}
	return p
}

// known returns the thread with a number, or nil.
func (w *world) known(pid, tid int) *thread {
	if p := w.programs[pid]; p != nil {
		return p.threads[tid]
	}
	return nil
}

// thread returns the thread of an event. A thread whose start was not seen
// begins with it.
func (w *world) thread(h event) *thread {
	if t := w.known(h.pid, h.tid); t != nil {
		return t
	}
	name, ticks := h.name, w.ticks(h)
	if h.started == 0 {
		name, ticks, _ = w.look(h.pid, h.tid)
	}
	t := w.start(h.pid, h.tid, name, ticks, nil)
	t.program.called(h)
	return t
}

// ticks returns the creation time of the thread of an event, or 0.
func (w *world) ticks(h event) uint64 {
	if h.started == 0 {
		return 0
	}
	return uint64((h.started - w.offset) / clockTick)
}

// anywhere returns the thread with a number in any process.
func (w *world) anywhere(tid int) *thread {
	for _, p := range w.programs {
		if t := p.threads[tid]; t != nil {
			return t
		}
	}
	return nil
}

// called sets the name and executable of a process from an event.
func (p *program) called(h event) {
	if h.process != "" {
		p.name = h.process
	}
	if h.exe != "" {
		p.exe = h.exe
	}
}

// fork gives a new process its parent's mappings.
func (w *world) fork(t, by *thread) {
	if by == nil || by.program == t.program || len(t.program.modules) > 0 {
		return
	}
	for file, names := range by.program.modules {
		t.program.modules[file] = names
		for _, name := range names {
			w.types[name].users++
		}
	}
}

// start adds a thread.
func (w *world) start(pid, tid int, name string, ticks uint64, by *thread) *thread {
	p := w.program(pid)
	id := threadID(tid, ticks)
	if old := p.threads[tid]; old != nil {
		if old.id == id || ticks == 0 {
			return old // the inventory has it
		}
		w.end(old) // its end was lost
		p = w.program(pid)
	}
	t := &thread{program: p, tid: tid, id: id, name: name}
	if p.name == "" && tid == pid {
		p.name = name
	}
	p.threads[tid] = t
	w.emitStart(t, by)
	return t
}

func (w *world) emitStart(t, by *thread) {
	r := row{category: threadCategory, event: create, entity: t.id, name: t.name}
	if by != nil {
		r.parent = by.id
	}
	w.event(t.program, by, r)
}

// end removes a thread, and with the last one the process.
func (w *world) end(t *thread) {
	p := t.program
	w.leaveAll(t, leave)
	w.dropLocks(t)
	if len(p.threads) == 1 {
		w.empty(p, t)
	}
	w.event(p, t, row{category: threadCategory, event: reclaim, entity: t.id, name: t.name})
	delete(p.threads, t.tid)
	if len(p.threads) == 0 {
		delete(w.programs, p.pid)
	}
}

// empty ends the objects and types of a program.
func (w *world) empty(p *program, on *thread) {
	for _, o := range p.inOrder() {
		w.reclaimObject(p, on, o, reclaim)
	}
	w.map_(p, on, nil)
	if w.onExit != nil {
		w.onExit(p.pid)
	}
	clear(p.used)
	clear(p.locks)
}

func (w *world) rename(t *thread, name string) {
	if t.name == name {
		return
	}
	t.name = name
	if t.tid == t.program.pid {
		t.program.name = name
	}
	w.event(t.program, t, row{category: threadCategory, event: rename, entity: t.id, name: name})
}

// execute handles an exec: the thread stays as the only one.
func (w *world) execute(t *thread, h event) {
	p := t.program
	for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
		if other := p.threads[tid]; other != t {
			w.end(other)
		}
	}
	w.leaveAll(t, leave)
	w.dropLocks(t)
	w.empty(p, t)
	p.called(h)
}

// endDoubtful ends what may have ended where events were lost: all but threads and
// modules, which an inventory shows.
func (w *world) endDoubtful() {
	for _, pid := range slices.Sorted(maps.Keys(w.programs)) {
		p := w.programs[pid]
		for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
			t := p.threads[tid]
			w.leaveAll(t, unknown)
			t.calls.base = 0
			w.dropLocks(t)
		}
		w.endObjects(p, nil)
		clear(p.locks)
	}
}

// resend emits all live entities again.
func (w *world) resend() {
	for _, p := range w.inOrder() {
		for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
			w.emitStart(p.threads[tid], nil)
		}
	}
	w.resendTypes()
	for _, p := range w.inOrder() {
		for _, o := range p.inOrder() {
			w.event(p, nil, row{category: objectCategory, event: create, entity: o.id, class: o.class})
		}
		for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
			t := p.threads[tid]
			for i := range t.calls.calls {
				w.emitCall(t, i)
			}
			w.resendLocks(t)
		}
	}
}

func (w *world) inOrder() []*program {
	var out []*program
	for _, pid := range slices.Sorted(maps.Keys(w.programs)) {
		out = append(out, w.programs[pid])
	}
	return out
}
