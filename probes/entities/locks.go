package entities

import (
	"maps"
	"slices"
	"strconv"
)

// lockFunctions are those of libc that are observed, and what they do: C++'s
// std::mutex, std::shared_mutex and std::condition_variable call them.
var lockFunctions = map[string]lockFunction{
	"pthread_mutex_lock":         {does: takes, of: "mutex"},
	"pthread_mutex_trylock":      {does: tries, of: "mutex"},
	"pthread_mutex_timedlock":    {does: takes, of: "mutex"},
	"pthread_mutex_clocklock":    {does: takes, of: "mutex"},
	"pthread_mutex_unlock":       {does: gives, of: "mutex"},
	"pthread_rwlock_rdlock":      {does: takes, of: "rwlock", shared: true},
	"pthread_rwlock_tryrdlock":   {does: tries, of: "rwlock", shared: true},
	"pthread_rwlock_timedrdlock": {does: takes, of: "rwlock", shared: true},
	"pthread_rwlock_clockrdlock": {does: takes, of: "rwlock", shared: true},
	"pthread_rwlock_wrlock":      {does: takes, of: "rwlock"},
	"pthread_rwlock_trywrlock":   {does: tries, of: "rwlock"},
	"pthread_rwlock_timedwrlock": {does: takes, of: "rwlock"},
	"pthread_rwlock_clockwrlock": {does: takes, of: "rwlock"},
	"pthread_rwlock_unlock":      {does: gives, of: "rwlock"},
	"pthread_cond_wait":          {does: waits, of: "condition"},
	"pthread_cond_timedwait":     {does: waits, of: "condition"},
	"pthread_cond_clockwait":     {does: waits, of: "condition"},
}

type lockFunction struct {
	does   action
	of     string // kind of lock
	shared bool
}

// action is what a function does to its first argument.
type action uint8

const (
	takes action = iota
	tries
	gives
	waits // and gives its second argument, and takes that again
)

// returns reports whether it matters when and with what the function returns.
func (f lockFunction) returns() bool { return f.does == takes || f.does == tries || f.does == waits }

// lock is one that some thread holds, or waits for.
type lock struct {
	id, kind string
	holders  []*thread  // one entry for each time
	shared   bool       // they hold it together
	asking   []*request // who wants it and did not get it yet
}

// request is a call that returns when it has the lock, or has given up.
type request struct {
	by       *thread
	function lockFunction
	address  uint64
	also     uint64 // the mutex that a wait gives and takes again; 0: it did not hold it
	since    int64
	told     bool // that it waits
}

// patience is how long a thread may be about to take a lock which nobody is known
// to hold, until it is said that it waits: some had been taken before.
const patience = int64(20e6)

func (w *world) lock(p *program, address uint64, kind string) *lock {
	l := p.locks[address]
	if l == nil {
		l = &lock{id: strconv.Itoa(p.pid) + ":0x" + strconv.FormatUint(address, 16), kind: kind}
		p.locks[address] = l
	}
	return l
}

// settle forgets a lock with which nobody has to do any more.
func (w *world) settle(p *program, address uint64) {
	if l := p.locks[address]; l != nil && len(l.holders) == 0 && len(l.asking) == 0 {
		delete(p.locks, address)
	}
}

// beginLock is of a thread that calls a function of locks.
func (w *world) beginLock(t *thread, h happening) {
	f, ok := lockFunctions[h.name]
	if !ok {
		w.monitor(t, h)
		return
	}
	p := t.program
	if t.asks != nil { // its return was not seen
		w.giveUp(t)
	}
	switch f.does {
	case gives:
		w.release(t, h.arg0)
	case takes, tries:
		r := &request{by: t, function: f, address: h.arg0, since: h.time}
		t.asks = r
		l := w.lock(p, h.arg0, f.of)
		l.asking = append(l.asking, r)
		if f.does == takes {
			w.tellWait(l, r)
		}
	case waits:
		r := &request{by: t, function: f, address: h.arg0, since: h.time}
		if w.release(t, h.arg1) {
			r.also = h.arg1
		}
		t.asks = r
		l := w.lock(p, h.arg0, f.of)
		l.asking = append(l.asking, r)
		r.told = true
		w.event(p, t, row{event: beginWait, entity: l.id, name: l.kind})
	}
}

// endLock is of a thread to which such a function returns.
func (w *world) endLock(t *thread, h happening) {
	f, ok := lockFunctions[h.name]
	r := t.asks
	if !ok || r == nil || r.function != f {
		return
	}
	p, l := t.program, t.program.locks[r.address]
	w.stopAsking(t)
	switch {
	case f.does == waits:
		if r.also != 0 {
			w.hold(t, w.lock(p, r.also, "mutex"), false)
		}
	case h.result == 0 || h.result == int32(ownerDied):
		w.hold(t, l, f.shared)
	}
	w.settle(p, r.address)
}

// ownerDied is EOWNERDEAD: the mutex is taken all the same.
const ownerDied = 130

// hold is of a thread that has got a lock; who else wants it waits.
func (w *world) hold(t *thread, l *lock, shared bool) {
	l.holders, l.shared = append(l.holders, t), shared
	w.event(t.program, t, row{event: acquire, entity: l.id, name: l.kind})
	for _, r := range l.asking {
		w.tellWait(l, r)
	}
}

// release is of a thread that lets go of a lock; false: it is not known to hold it.
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
	w.settle(t.program, address)
	return true
}

// tellWait says that a thread waits, if somebody else has what it wants.
func (w *world) tellWait(l *lock, r *request) {
	if r.told || r.function.does != takes || l.shared && r.function.shared {
		return
	}
	// Its own is no wait if the mutex is recursive; of others it is found out by
	// patience.
	i := slices.IndexFunc(l.holders, func(holder *thread) bool { return holder != r.by })
	if i < 0 {
		return
	}
	r.told = true
	w.event(r.by.program, r.by, row{event: beginWait, entity: l.id, name: l.kind, other: l.holders[i].id})
}

// pass tells of those who have waited for long, for nobody known.
func (w *world) pass(now int64) {
	w.now = max(w.now, now)
	for _, p := range w.inOrder() {
		for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
			if p.threads[tid].awaits != nil {
				w.askOwner(p.threads[tid])
			}
			r := p.threads[tid].asks
			if r == nil || r.told || r.function.does != takes || w.now-r.since < patience {
				continue
			}
			r.told = true
			l := w.lock(p, r.address, r.function.of)
			x := row{event: beginWait, entity: l.id, name: l.kind}
			if len(l.holders) > 0 { // itself
				x.other = l.holders[0].id
			}
			w.event(p, r.by, x)
		}
	}
}

// stopAsking ends the request of a thread.
func (w *world) stopAsking(t *thread) {
	r := t.asks
	t.asks = nil
	l := t.program.locks[r.address]
	if l == nil {
		return
	}
	l.asking = slices.DeleteFunc(l.asking, func(x *request) bool { return x == r })
	if r.told {
		w.event(t.program, t, row{event: endWait, entity: l.id, name: l.kind})
	}
}

// giveUp ends the request of a thread that did not get what it wanted.
func (w *world) giveUp(t *thread) {
	address := t.asks.address
	w.stopAsking(t)
	w.settle(t.program, address)
}

// letGo is of a thread that ends, or of which nothing more is known. Locks that it
// holds are UNKNOWN from then on: they may stay locked, or be in memory that is gone.
func (w *world) letGo(t *thread) {
	if t.asks != nil {
		w.giveUp(t)
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
		w.settle(t.program, address)
	}
}

// retellLocks tells what a thread holds and waits for.
func (w *world) retellLocks(t *thread) {
	for _, address := range slices.Sorted(maps.Keys(t.program.locks)) {
		l := t.program.locks[address]
		for _, holder := range l.holders {
			if holder == t {
				w.event(t.program, t, row{event: acquire, entity: l.id, name: l.kind})
			}
		}
	}
	if t.awaits != nil {
		w.event(t.program, t, row{event: beginWait, entity: t.awaits.id, name: t.awaits.of})
	}
	if r := t.asks; r != nil && r.told {
		l := w.lock(t.program, r.address, r.function.of)
		w.event(t.program, t, row{event: beginWait, entity: l.id, name: l.kind})
	}
}

// lockNames are the functions, and those that must be seen to return.
func lockNames() (calls, returns []string) {
	for _, name := range slices.Sorted(maps.Keys(lockFunctions)) {
		calls = append(calls, name)
		if lockFunctions[name].returns() {
			returns = append(returns, name)
		}
	}
	return calls, returns
}
