package consistency

import "slices"

// Keeper reports selected events so that the rules of the package hold. It is not safe for
// concurrent use.
type Keeper struct {
	// Report receives the reports in order.
	Report func(Report)
	// MaxLive limits the number of known entities and held locks; 0 means no limit.
	MaxLive int

	world  *world
	paused bool
	quiet  map[string]bool // threads by name
	now    int64
	seq    uint64
	// blind are the threads with an unrecorded invocation: which invocations enclose which,
	// and end with which, is no longer known there.
	blind    map[string]bool
	allBlind bool // there are too many of them
	counts   Counts
}

// Counts counts what could not be reported exactly.
type Counts struct {
	Withheld  uint64 // selected lock events that could not be completed
	Forgotten uint64 // entities above the limit, reported as unknown
	Unended   uint64 // reported entities whose end was not seen, ended as unknown
}

// NewKeeper returns a keeper that has seen no events.
func NewKeeper(report func(Report), maxLive int) *Keeper {
	return &Keeper{Report: report, MaxLive: maxLive, world: newWorld(), quiet: map[string]bool{}, blind: map[string]bool{}}
}

// Counts returns the counts so far.
func (k *Keeper) Counts() Counts { return k.counts }

// Live returns the number of known entities and held locks.
func (k *Keeper) Live() int { return k.world.size }

// Suspend stops reporting for the thread with that name, or for all threads if it is "".
// Entities already reported still end. Resume undoes it; later events catch up.
func (k *Keeper) Suspend(thread string) { k.suspend(thread, true) }

// Resume undoes Suspend of the same thread.
func (k *Keeper) Resume(thread string) { k.suspend(thread, false) }

func (k *Keeper) suspend(thread string, yes bool) {
	switch {
	case thread == "":
		k.paused = yes
	case yes:
		k.quiet[thread] = true
	default:
		delete(k.quiet, thread)
	}
}

// Push processes the next event and whether it is selected; threadName is the name of the
// thread on which it happened.
func (k *Keeper) Push(e Event, selected bool, threadName string) {
	k.seq++
	e.Seq = k.seq
	k.now = max(k.now, e.Time)
	k.world.seen[e.Category] = true
	wanted := selected && !k.paused && !k.quiet[threadName]
	switch {
	case e.Kind.synchronises():
		k.synchronise(e, wanted)
	case e.endsLock():
		k.endLock(e, wanted)
	case e.Kind.Creates():
		k.create(e, wanted)
	case e.Kind.Ends():
		k.end(e, wanted)
	case e.Kind == Load || e.Kind == Rename:
		k.change(e, wanted)
	case e.Kind == Move:
		k.move(e, wanted)
	case wanted:
		k.reportEvent(e, k.subject(e))
	}
}

// Lost records that an unknown number of events is missing here: reported entities end, the
// last first, and live entities must be reported again.
func (k *Keeper) Lost() {
	for id, threads := range k.world.locks {
		for thread, l := range threads {
			k.loseLock(l, id, thread)
		}
	}
	var reported []*entity
	for _, live := range k.world.live {
		for _, x := range live {
			if x.reported {
				reported = append(reported, x)
			}
		}
	}
	slices.SortFunc(reported, func(a, b *entity) int { return int(b.number) - int(a.number) })
	for _, x := range reported {
		k.endUnknown(x)
	}
	seen := k.world.seen
	k.world = newWorld()
	k.world.forgotten, k.world.seen = true, seen
	clear(k.blind)
}

// Advance sets the current time; later reports are not earlier than t.
func (k *Keeper) Advance(t int64) { k.now = max(k.now, t) }

// subject returns the entity that an activity event is about.
func (k *Keeper) subject(e Event) *entity {
	if e.Kind == Suspend || e.Kind == Resume {
		return k.world.find(Thread, e.Entity)
	}
	return k.world.any(e.Entity)
}

// create records an entity.
func (k *Keeper) create(e Event, wanted bool) {
	if old := k.world.find(e.Category, e.Entity); old != nil {
		k.finish(old) // its end was not seen
	}
	if e.Category == Thread {
		delete(k.blind, e.Entity)
	}
	full := k.MaxLive > 0 && k.world.size >= k.MaxLive
	if full || e.Category == Invocation && (k.allBlind || k.blind[e.Thread]) {
		k.forget(e)
		if wanted {
			k.reportEvent(e, nil)
		}
		return
	}
	x := k.world.add(e)
	if wanted {
		k.reportPending(x, false)
	}
}

// forget counts an entity that is not recorded.
func (k *Keeper) forget(e Event) {
	k.counts.Forgotten++
	k.world.forgotten = true
	if e.Category != Invocation || k.allBlind || k.blind[e.Thread] {
		return
	}
	if len(k.blind) >= k.MaxLive {
		k.allBlind = true
		clear(k.blind)
		for _, x := range k.world.live[Invocation] {
			k.finishAll(x.on)
		}
		return
	}
	k.blind[e.Thread] = true
	k.finishAll(e.Thread)
}

// finishAll ends the invocations of a thread.
func (k *Keeper) finishAll(thread string) {
	for top := k.world.innermost(thread); top != nil; top = k.world.innermost(thread) {
		k.finishOne(top)
	}
}

// end removes an entity.
func (k *Keeper) end(e Event, wanted bool) {
	x := k.world.find(e.Category, e.Entity)
	if x == nil {
		switch {
		case e.Category == Thread:
			k.finishAll(e.Entity)
			k.leaveThread(e.Entity)
		case e.Category == Invocation && k.world.forgotten:
			k.finishAll(e.Thread) // they were made within it, below the lost one
		}
		if wanted {
			if k.world.forgotten {
				k.reportEvent(e, nil)
			} else {
				k.counts.Withheld++ // it ends an entity that never began
			}
		}
		return
	}
	k.finishWithin(x)
	if wanted {
		k.refer(x)
	}
	if x.reported {
		k.emit(e, x, !wanted)
	}
	k.world.remove(x)
}

// finishWithin ends what ends at the latest with x: invocations within it, or on it.
func (k *Keeper) finishWithin(x *entity) {
	switch x.category {
	case Invocation:
		top := k.world.innermost(x.on)
		for y := top; y != x; y = y.under {
			if y == nil {
				return
			}
		}
		for ; top != x; top = k.world.innermost(x.on) {
			k.finishOne(top)
		}
	case Thread:
		for x.top != nil {
			k.finishOne(x.top)
		}
		k.leaveThread(x.id)
	}
}

// leaveThread drops the locks of a thread that has ended.
func (k *Keeper) leaveThread(thread string) {
	delete(k.blind, thread)
	for id := range k.world.holds[thread] {
		k.world.unlock(id, thread)
	}
}

// finish ends x, whose end was not seen, and everything within it.
func (k *Keeper) finish(x *entity) {
	k.finishWithin(x)
	k.finishOne(x)
}

func (k *Keeper) finishOne(x *entity) {
	k.endUnknown(x)
	k.world.remove(x)
}

func (k *Keeper) endUnknown(x *entity) {
	if !x.reported {
		return
	}
	k.counts.Unended++
	k.emit(Event{Time: k.now, Category: x.category, Kind: Ended, Entity: x.id, Thread: current(x.create.thread, x.create.Thread), Name: x.create.Name, TypeName: x.create.TypeName}, x, true)
	x.reported = false
}

// change records the load of a type or a new thread name.
func (k *Keeper) change(e Event, wanted bool) {
	x := k.world.find(e.Category, e.Entity)
	if x == nil {
		if wanted {
			k.reportEvent(e, nil)
		}
		return
	}
	was := k.world.remember(e)
	if e.Kind == Load {
		x.load, x.loaded = &was, false
	} else {
		x.rename, x.named = &was, false
	}
	if wanted || x.reported && e.Kind == Load {
		k.reportPending(x, !wanted)
	}
}

// move records a new identity and reports it where the old one was reported.
func (k *Keeper) move(e Event, wanted bool) {
	x := k.world.find(Object, e.Entity)
	if x == nil {
		if wanted {
			k.reportEvent(e, nil)
		}
		return
	}
	if old := k.world.find(x.category, e.Other); old != nil && old != x {
		k.finish(old)
	}
	if wanted {
		k.refer(x)
	}
	if x.reported {
		k.emit(e, x, !wanted)
	}
	k.world.move(x, e.Other)
}

// reportEvent reports an event after the entities it refers to; about is its subject, nil if
// unknown.
func (k *Keeper) reportEvent(e Event, about *entity) {
	was := k.world.remember(e)
	k.refer(about)
	k.refer(was.other)
	k.refer(was.parent)
	if e.Category != Type && e.Category != Thread {
		k.refer(k.world.types[e.TypeName])
	}
	k.emit(e, about, false)
}

// refer ensures that x, which lives, has been reported; what it refers to is reported
// first, each once. Cycles of types end at the first one in progress.
func (k *Keeper) refer(x *entity) {
	if x != nil && !x.ended {
		k.reportPending(x, true)
	}
}

// reportPending reports what is not yet reported of x: its creation, its load, its name.
// catchUp is false if x was selected; then the last of these reports is the selected one.
func (k *Keeper) reportPending(x *entity, catchUp bool) {
	load, name := x.load != nil && !x.loaded, x.rename != nil && !x.named
	if !x.reported {
		x.reported = true // before its references, which may refer back to it
		k.refer(x.create.thread)
		k.refer(x.class)
		if x.category != Type {
			k.refer(x.create.other)
			k.referParents(x)
		}
		k.emit(x.create.current(x), x, catchUp || load || name)
	}
	if load {
		x.loaded = true
		k.refer(x.load.parent)
		k.refer(x.load.other)
		k.emit(x.load.current(x), x, catchUp || name)
	}
	if name {
		x.named = true
		k.emit(x.rename.current(x), x, catchUp)
	}
}

// referParents reports the enclosing entities of x, outermost first. It does not recurse,
// because calls may be deeply nested.
func (k *Keeper) referParents(x *entity) {
	var around []*entity
	for p := x.create.parent; p != nil && !p.reported && !p.ended; p = p.create.parent {
		around = append(around, p)
	}
	for _, p := range slices.Backward(around) {
		k.refer(p)
	}
}

// synchronise records a thread's use of a lock.
func (k *Keeper) synchronise(e Event, wanted bool) {
	id := e.Entity
	l := k.world.locks[id][e.Thread]
	if l != nil && !l.fits(e.Kind) {
		k.loseLock(l, id, e.Thread) // an earlier event was not seen
		k.world.unlock(id, e.Thread)
		l = nil
	}
	if l == nil {
		switch {
		case e.Kind == Release || e.Kind == EndWait:
			if wanted {
				k.counts.Withheld++ // of what happened before observation began
			}
			return
		case k.MaxLive > 0 && k.world.size >= k.MaxLive:
			k.forget(e)
			if wanted {
				e.Entity = Unknown
				k.emit(e, nil, false)
			}
			return
		}
		l = &lock{unknown: k.subject(e) == nil && k.world.lacks(Object, Type)} // a mutex is neither
		k.world.lock(id, e.Thread, l)
	}
	if l.unknown {
		e.Entity = Unknown
	}
	was := k.world.remember(e)
	forced := e.Kind == Release && l.held == len(l.acquired) || e.Kind == EndWait && l.waits
	if wanted {
		k.completeLock(l, e.Entity)
	}
	l.apply(was)
	if wanted || forced {
		subject := k.subject(e)
		k.refer(subject)
		k.refer(was.other)
		k.emit(e, subject, !wanted)
		l.held, l.waits = len(l.acquired), l.waiting != nil
	}
	if l.idle() {
		k.world.unlock(id, e.Thread)
	}
}

// loseLock reports, if anything was reported, that a thread's use of a lock is unknown.
func (k *Keeper) loseLock(l *lock, id, thread string) {
	if (l.held > 0 || l.waits) && !l.unknown {
		k.counts.Unended++
		k.emit(Event{Time: k.now, Kind: Ended, Entity: id, Thread: thread}, k.world.any(id), true)
	}
}

// endLock records that a thread's use of a lock is unknown.
func (k *Keeper) endLock(e Event, wanted bool) {
	l := k.world.locks[e.Entity][e.Thread]
	switch {
	case l == nil || l.unknown: // UNKNOWN is never known to be held
		if wanted {
			k.counts.Withheld++
		}
	case wanted || l.held > 0 || l.waits:
		subject := k.subject(e)
		k.refer(subject)
		k.emit(e, subject, !wanted)
	}
	if l != nil {
		k.world.unlock(e.Entity, e.Thread)
	}
}

// completeLock reports the acquisitions and the wait of the lock that has this identity
// now.
func (k *Keeper) completeLock(l *lock, id string) {
	missing := l.acquired[l.held:]
	if l.waiting != nil && !l.waits {
		missing = append(missing[:len(missing):len(missing)], *l.waiting)
	}
	for _, was := range missing {
		e := was.Event
		e.Entity, e.Other = id, current(was.other, e.Other)
		subject := k.subject(e)
		k.refer(subject)
		k.refer(was.other)
		k.emit(e, subject, true)
	}
	l.held, l.waits = len(l.acquired), l.waiting != nil
}

// emit reports e, which is about x, after the thread on which it happened.
func (k *Keeper) emit(e Event, x *entity, catchUp bool) {
	if t := k.world.find(Thread, e.Thread); t != x {
		k.refer(t)
	}
	if w := k.world; w.forgotten { // an unknown identity may be that of an unrecorded entity
		if x == nil && !e.Kind.synchronises() && (e.Kind != Ended || e.Category != None) {
			e.Entity = Unknown
		}
		if e.Kind != Move {
			e.Other = w.known(w.any(e.Other), e.Other, Object, Type, Thread, Invocation)
		}
		e.Parent = w.known(w.find(e.Category, e.Parent), e.Parent, e.Category)
		if e.Kind == Enter && e.Parent == "" {
			e.Parent = Unknown // it is not known whether there was one
		}
		e.Thread = w.known(w.find(Thread, e.Thread), e.Thread, Thread)
		if e.Category != Type && e.Category != Thread {
			e.TypeName = w.known(w.types[e.TypeName], e.TypeName, Type)
		}
	}
	k.Report(Report{Event: e, At: k.now, CatchUp: catchUp || e.Past})
}
