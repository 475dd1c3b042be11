package entities

import (
	"maps"
	"slices"
	"strconv"
)

// lockFunctions are the observed functions of libc and their effects. C++'s
// std::mutex, std::shared_mutex and std::condition_variable call them.
var lockFunctions = map[string]lockFunction{
	"pthread_mutex_lock":         {does: acquires, kind: "mutex"},
	"pthread_mutex_trylock":      {does: tries, kind: "mutex"},
	"pthread_mutex_timedlock":    {does: acquires, kind: "mutex"},
	"pthread_mutex_clocklock":    {does: acquires, kind: "mutex"},
	"pthread_mutex_unlock":       {does: releases, kind: "mutex"},
	"pthread_rwlock_rdlock":      {does: acquires, kind: "rwlock", shared: true},
	"pthread_rwlock_tryrdlock":   {does: tries, kind: "rwlock", shared: true},
	"pthread_rwlock_timedrdlock": {does: acquires, kind: "rwlock", shared: true},
	"pthread_rwlock_clockrdlock": {does: acquires, kind: "rwlock", shared: true},
	"pthread_rwlock_wrlock":      {does: acquires, kind: "rwlock"},
	"pthread_rwlock_trywrlock":   {does: tries, kind: "rwlock"},
	"pthread_rwlock_timedwrlock": {does: acquires, kind: "rwlock"},
	"pthread_rwlock_clockwrlock": {does: acquires, kind: "rwlock"},
	"pthread_rwlock_unlock":      {does: releases, kind: "rwlock"},
	"pthread_cond_wait":          {does: waits, kind: "condition"},
	"pthread_cond_timedwait":     {does: waits, kind: "condition"},
	"pthread_cond_clockwait":     {does: waits, kind: "condition"},
}

type lockFunction struct {
	does   action
	kind   string // kind of lock
	shared bool
}

// action is the effect of a function on its first argument.
type action uint8

const (
	acquires action = iota
	tries
	releases
	waits // waits on it; releases its second argument and acquires it again
)

// returns reports whether the time and result of the function's return matter.
func (f lockFunction) returns() bool { return f.does == acquires || f.does == tries || f.does == waits }

// lock is a lock that some thread holds or waits for.
type lock struct {
	id, kind string
	holders  []*thread  // one entry per acquisition
	shared   bool       // held in shared mode
	requests []*request // requests not granted yet
}

// request is a call that returns when it has acquired the lock or has failed.
type request struct {
	by          *thread
	function    lockFunction
	address     uint64
	also        uint64 // the mutex that a condition wait releases and acquires again; 0: none held
	since       int64
	waitEmitted bool // its BEGIN_WAIT was emitted
}

// waitThreshold is the time after which a request of a lock without a known holder
// is reported as waiting: the lock may have been acquired before monitoring
// began.
const waitThreshold = int64(20e6)

func (w *world) lock(p *program, address uint64, kind string) *lock {
	l := p.locks[address]
	if l == nil {
		l = &lock{id: strconv.Itoa(p.pid) + ":0x" + strconv.FormatUint(address, 16), kind: kind}
		p.locks[address] = l
	}
	return l
}

// removeUnused removes a lock without holders and requests.
func (w *world) removeUnused(p *program, address uint64) {
	if l := p.locks[address]; l != nil && len(l.holders) == 0 && len(l.requests) == 0 {
		delete(p.locks, address)
	}
}

// beginLock handles the entry of a lock function.
func (w *world) beginLock(t *thread, h event) {
	f, ok := lockFunctions[h.name]
	if !ok {
		w.monitor(t, h)
		return
	}
	p := t.program
	if t.request != nil { // its return was not seen
		w.failRequest(t)
	}
	switch f.does {
	case releases:
		w.release(t, h.arg0)
	case acquires, tries:
		r := &request{by: t, function: f, address: h.arg0, since: h.time}
		t.request = r
		l := w.lock(p, h.arg0, f.kind)
		l.requests = append(l.requests, r)
		if f.does == acquires {
			w.emitWait(l, r)
		}
	case waits:
		r := &request{by: t, function: f, address: h.arg0, since: h.time}
		if w.release(t, h.arg1) {
			r.also = h.arg1
		}
		t.request = r
		l := w.lock(p, h.arg0, f.kind)
		l.requests = append(l.requests, r)
		r.waitEmitted = true
		w.event(p, t, row{event: beginWait, entity: l.id, name: l.kind})
	}
}

// endLock handles the return of a lock function.
func (w *world) endLock(t *thread, h event) {
	f, ok := lockFunctions[h.name]
	r := t.request
	if !ok || r == nil || r.function != f {
		return
	}
	p, l := t.program, t.program.locks[r.address]
	w.endRequest(t)
	switch {
	case f.does == waits:
		if r.also != 0 {
			w.hold(t, w.lock(p, r.also, "mutex"), false)
		}
	case h.result == 0 || h.result == int32(ownerDied):
		w.hold(t, l, f.shared)
	}
	w.removeUnused(p, r.address)
}

// ownerDied is EOWNERDEAD: the mutex is acquired all the same.
const ownerDied = 130

// hold records that a thread has acquired a lock; all other requests wait.
func (w *world) hold(t *thread, l *lock, shared bool) {
	l.holders, l.shared = append(l.holders, t), shared
	w.event(t.program, t, row{event: acquire, entity: l.id, name: l.kind})
	for _, r := range l.requests {
		w.emitWait(l, r)
	}
}

// release records that a thread releases a lock; it returns false if the thread
// is not known to hold it.
func (w *world) release(t *thread, address uint64) bool {
	l := t.program.locks[address]
	if l == nil {
		return false
	}
	i := slices.Index(l.holders, t)
	if i < 0 {
		return false
	}
	l.holders = slices.Delete(l.holders, i, i+1)
	w.event(t.program, t, row{event: release, entity: l.id, name: l.kind})
	w.removeUnused(t.program, address)
	return true
}

// emitWait emits BEGIN_WAIT if another thread holds the lock.
func (w *world) emitWait(l *lock, r *request) {
	if r.waitEmitted || r.function.does != acquires || l.shared && r.function.shared {
		return
	}
	// A request of a lock that the thread holds itself is no wait if the mutex
	// is recursive; others are found by waitThreshold.
	i := slices.IndexFunc(l.holders, func(holder *thread) bool { return holder != r.by })
	if i < 0 {
		return
	}
	r.waitEmitted = true
	w.event(r.by.program, r.by, row{event: beginWait, entity: l.id, name: l.kind, other: l.holders[i].id})
}

// emitWaits emits BEGIN_WAIT for requests older than waitThreshold whose lock has no
// known holder.
func (w *world) emitWaits(now int64) {
	w.now = max(w.now, now)
	for _, p := range w.inOrder() {
		for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
			if p.threads[tid].awaits != nil {
				w.askOwner(p.threads[tid])
			}
			r := p.threads[tid].request
			if r == nil || r.waitEmitted || r.function.does != acquires || w.now-r.since < waitThreshold {
				continue
			}
			r.waitEmitted = true
			l := w.lock(p, r.address, r.function.kind)
			x := row{event: beginWait, entity: l.id, name: l.kind}
			if len(l.holders) > 0 { // held by itself
				x.other = l.holders[0].id
			}
			w.event(p, r.by, x)
		}
	}
}

// endRequest removes the request of a thread.
func (w *world) endRequest(t *thread) {
	r := t.request
	t.request = nil
	l := t.program.locks[r.address]
	if l == nil {
		return
	}
	l.requests = slices.DeleteFunc(l.requests, func(x *request) bool { return x == r })
	if r.waitEmitted {
		w.event(t.program, t, row{event: endWait, entity: l.id, name: l.kind})
	}
}

// failRequest removes the request of a thread that failed to acquire the lock.
func (w *world) failRequest(t *thread) {
	address := t.request.address
	w.endRequest(t)
	w.removeUnused(t.program, address)
}

// dropLocks is called for a thread that ends, or whose events were lost. Its locks
// become UNKNOWN: they may stay locked, or be in freed memory.
func (w *world) dropLocks(t *thread) {
	if t.request != nil {
		w.failRequest(t)
	}
	if t.awaits != nil {
		w.endAwait(t)
	}
	var held []uint64
	for address, l := range t.program.locks {
		if slices.Contains(l.holders, t) {
			held = append(held, address)
		}
	}
	slices.Sort(held)
	for _, address := range held {
		l := t.program.locks[address]
		l.holders = slices.DeleteFunc(l.holders, func(x *thread) bool { return x == t })
		w.event(t.program, t, row{event: unknown, entity: l.id, name: l.kind})
		w.removeUnused(t.program, address)
	}
}

// resendLocks emits again what a thread holds and waits for.
func (w *world) resendLocks(t *thread) {
	for _, address := range slices.Sorted(maps.Keys(t.program.locks)) {
		l := t.program.locks[address]
		for _, holder := range l.holders {
			if holder == t {
				w.event(t.program, t, row{event: acquire, entity: l.id, name: l.kind})
			}
		}
	}
	if t.awaits != nil {
		w.event(t.program, t, row{event: beginWait, entity: t.awaits.id, name: t.awaits.kind})
	}
	if r := t.request; r != nil && r.waitEmitted {
		l := w.lock(t.program, r.address, r.function.kind)
		w.event(t.program, t, row{event: beginWait, entity: l.id, name: l.kind})
	}
}

// lockNames returns the lock functions, and those whose return must be
// observed.
func lockNames() (calls, returns []string) {
	for _, name := range slices.Sorted(maps.Keys(lockFunctions)) {
		calls = append(calls, name)
		if lockFunctions[name].returns() {
			returns = append(returns, name)
		}
	}
	return calls, returns
}
