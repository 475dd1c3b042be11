package consistency

import "slices"

// Keeper reports selected events so that the rules of the package hold. It is not
// safe for concurrent use.
type Keeper struct {
	// Report is given what is to be reported, in order.
	Report func(Report)
	// MaxLive is how many entities and held locks may be known at a time. 0: any.
	MaxLive int

	world  *world
	paused bool
	quiet  map[string]bool // threads by name
	now    int64
	seq    uint64
	// blind are the threads of whose invocations one was not taken in: what lies
	// within what, and what ends with what, is not known there any more.
	blind    map[string]bool
	allBlind bool // there are too many of them
	counts   Counts
}

// Counts are what could not be reported as it was.
type Counts struct {
	Withheld  uint64 // selected events of locks that nothing could complete
	Forgotten uint64 // entities above the limit, which are reported as unknown
	Unended   uint64 // reported entities whose end was not seen, ended as unknown
}

// NewKeeper returns a keeper that has seen nothing.
func NewKeeper(report func(Report), maxLive int) *Keeper {
	return &Keeper{Report: report, MaxLive: maxLive, world: newWorld(), quiet: map[string]bool{}, blind: map[string]bool{}}
}

// Counts are what was counted so far.
func (k *Keeper) Counts() Counts { return k.counts }

// Live is how many entities and held locks are known.
func (k *Keeper) Live() int { return k.world.size }

// Suspend ends reporting, of the thread of that name or, with "", of all. What was
// reported still ends. Resume undoes it; events that follow catch up.
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

// Push takes the next event, and whether it is selected; threadName is that of the
// thread on which it happened.
func (k *Keeper) Push(e Event, selected bool, threadName string) {
	k.seq++
	e.Seq = k.seq
	k.now = max(k.now, e.Time)
	k.world.tells[e.Category] = true
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
		k.happen(e, k.subject(e))
	}
}

// Lost says that events are missing here, nobody knows which: what was reported
// ends, the last first, and what lives has to be told anew.
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
	tells := k.world.tells
	k.world = newWorld()
	k.world.forgotten, k.world.tells = true, tells
	clear(k.blind)
}

// Advance says that it is t: what is reported from now on is not reported before.
func (k *Keeper) Advance(t int64) { k.now = max(k.now, t) }

// subject is the entity that an activity event is about.
func (k *Keeper) subject(e Event) *entity {
	if e.Kind == Suspend || e.Kind == Resume {
		return k.world.find(Thread, e.Entity)
	}
	return k.world.any(e.Entity)
}

// create takes in an entity.
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
			k.happen(e, nil)
		}
		return
	}
	x := k.world.add(e)
	if wanted {
		k.tell(x, false)
	}
}

// forget counts an entity that is not taken in.
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

// end takes an entity away.
func (k *Keeper) end(e Event, wanted bool) {
	x := k.world.find(e.Category, e.Entity)
	if x == nil {
		switch {
		case e.Category == Thread:
			k.finishAll(e.Entity)
			k.leaveThread(e.Entity)
		case e.Category == Invocation && k.world.forgotten:
			k.finishAll(e.Thread) // they were made within it: what was lost lies below
		}
		if wanted {
			if k.world.forgotten {
				k.happen(e, nil)
			} else {
				k.counts.Withheld++ // it ends what has never begun
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

// finishWithin ends what ends with x at the latest: invocations within it, or on it.
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

// leaveThread forgets what a thread held that has ended.
func (k *Keeper) leaveThread(thread string) {
	delete(k.blind, thread)
	for id := range k.world.holds[thread] {
		k.world.unlock(id, thread)
	}
}

// finish ends x, whose end was not seen, and what lies within it.
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

// change takes in the load of a type or the new name of a thread.
func (k *Keeper) change(e Event, wanted bool) {
	x := k.world.find(e.Category, e.Entity)
	if x == nil {
		if wanted {
			k.happen(e, nil)
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
		k.tell(x, !wanted)
	}
}

// move takes in a new identity, which those must hear of who know the old one.
func (k *Keeper) move(e Event, wanted bool) {
	x := k.world.find(Object, e.Entity)
	if x == nil {
		if wanted {
			k.happen(e, nil)
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

// happen reports an event behind what it refers to; about is what it is about, nil
// if that is not known.
func (k *Keeper) happen(e Event, about *entity) {
	was := k.world.remember(e)
	k.refer(about)
	k.refer(was.other)
	k.refer(was.parent)
	if e.Category != Type && e.Category != Thread {
		k.refer(k.world.types[e.TypeName])
	}
	k.emit(e, about, false)
}

// refer sees to it that x, which lives, has been reported: what it refers to
// first, each once. Where types refer to each other this ends at the first that
// is under way.
func (k *Keeper) refer(x *entity) {
	if x != nil && !x.ended {
		k.tell(x, true)
	}
}

// tell reports what is not yet reported of x: its creation, its load, its name.
// If x was selected catchUp is false, and the last of these is what was.
func (k *Keeper) tell(x *entity, catchUp bool) {
	load, name := x.load != nil && !x.loaded, x.rename != nil && !x.named
	if !x.reported {
		x.reported = true // before what it refers to: that may refer to it
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

// referParents reports what x was created within, outermost first: the calls
// around a call may be many.
func (k *Keeper) referParents(x *entity) {
	var around []*entity
	for p := x.create.parent; p != nil && !p.reported && !p.ended; p = p.create.parent {
		around = append(around, p)
	}
	for _, p := range slices.Backward(around) {
		k.refer(p)
	}
}

// synchronise takes in what a thread does to a lock.
func (k *Keeper) synchronise(e Event, wanted bool) {
	id := e.Entity
	l := k.world.locks[id][e.Thread]
	if l != nil && !l.fits(e.Kind) {
		k.loseLock(l, id, e.Thread) // something before it was not seen
		k.world.unlock(id, e.Thread)
		l = nil
	}
	if l == nil {
		switch {
		case e.Kind == Release || e.Kind == EndWait:
			if wanted {
				k.counts.Withheld++ // of what was before there was anybody to see it
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

// loseLock says, if anything was said of it, that it is not known any more what a
// thread does to a lock.
func (k *Keeper) loseLock(l *lock, id, thread string) {
	if (l.held > 0 || l.waits) && !l.unknown {
		k.counts.Unended++
		k.emit(Event{Time: k.now, Kind: Ended, Entity: id, Thread: thread}, k.world.any(id), true)
	}
}

// endLock takes in that nothing is known any more of what a thread does to a lock.
func (k *Keeper) endLock(e Event, wanted bool) {
	l := k.world.locks[e.Entity][e.Thread]
	switch {
	case l == nil || l.unknown: // of UNKNOWN nobody knows that it is held
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

// completeLock reports what a thread holds and waits for already, of the lock that
// has this identity now.
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

// emit reports e, which is about x, behind the thread on which it happened.
func (k *Keeper) emit(e Event, x *entity, catchUp bool) {
	if t := k.world.find(Thread, e.Thread); t != x {
		k.refer(t)
	}
	if w := k.world; w.forgotten { // an identity that nobody has may be that of what was forgotten
		if x == nil && !e.Kind.synchronises() && (e.Kind != Ended || e.Category != None) {
			e.Entity = Unknown
		}
		if e.Kind != Move {
			e.Other = w.known(w.any(e.Other), e.Other, Object, Type, Thread, Invocation)
		}
		e.Parent = w.known(w.find(e.Category, e.Parent), e.Parent, e.Category)
		if e.Kind == Enter && e.Parent == "" {
			e.Parent = Unknown // whether there was one is not known
		}
		e.Thread = w.known(w.find(Thread, e.Thread), e.Thread, Thread)
		if e.Category != Type && e.Category != Thread {
			e.TypeName = w.known(w.types[e.TypeName], e.TypeName, Type)
		}
	}
	k.Report(Report{Event: e, At: k.now, CatchUp: catchUp || e.Past})
}
