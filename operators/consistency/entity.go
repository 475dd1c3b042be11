package consistency

import "slices"

// past is an event that may be reported later, with the entities that it refers to as they
// were when it happened.
type past struct {
	Event
	thread, parent, other *entity
}

// current returns the event as it must be reported now: identities may have changed, and an
// identity of an ended entity may have been reused.
func (p *past) current(about *entity) Event {
	e := p.Event
	e.Entity = about.id
	e.Thread = current(p.thread, e.Thread)
	e.Parent = current(p.parent, e.Parent)
	e.Other = current(p.other, e.Other)
	return e
}

func current(x *entity, was string) string {
	switch {
	case x == nil:
		return was
	case x.ended:
		return Unknown
	}
	return x.id
}

// entity is a live entity, or one that a live entity refers to.
type entity struct {
	category Category
	id       string // its current identity: it may have moved
	number   uint64 // in order of creation
	create   past
	load     *past   // of a type that is loaded
	rename   *past   // the last one
	class    *entity // its type
	on       string  // of an invocation: identity of its thread
	under    *entity // of an invocation: the next one below on its thread's stack
	top      *entity // of a thread: its innermost invocation
	ended    bool
	reported bool
	loaded   bool // the load was reported
	named    bool // the rename was reported
}

// world is the set of live entities, by identity.
type world struct {
	live  [categories]map[string]*entity
	types map[string]*entity          // by name
	locks map[string]map[string]*lock // by identity of the lock, and of the thread
	holds map[string]map[string]bool  // locks by thread, the inverse of locks
	tops  map[string]*entity          // innermost invocation of threads without an entity
	size  int
	made  uint64
	// forgotten is set when some entities were not recorded because of the limit, so that
	// an unknown identity may belong to one of them, if the stream has events of their
	// category.
	forgotten bool
	seen      [categories]bool // categories that have had events
}

func newWorld() *world {
	w := &world{types: map[string]*entity{}, locks: map[string]map[string]*lock{}, holds: map[string]map[string]bool{}, tops: map[string]*entity{}}
	for c := range w.live {
		w.live[c] = map[string]*entity{}
	}
	return w
}

// find returns the live entity of that category and identity, or nil.
func (w *world) find(c Category, id string) *entity {
	if id == "" {
		return nil
	}
	return w.live[c][id]
}

// any returns the live entity of that identity: an object, or else one of another category,
// provided that no object was left unrecorded.
func (w *world) any(id string) *entity {
	for _, c := range [...]Category{Object, Type, Thread, Invocation} {
		if x := w.find(c, id); x != nil || w.lacks(c) {
			return x
		}
	}
	return nil
}

// lacks reports whether entities of one of the categories may be unrecorded. A category
// without events has no entities, so nothing of it can be missing.
func (w *world) lacks(of ...Category) bool {
	return w.forgotten && slices.ContainsFunc(of, func(c Category) bool { return w.seen[c] })
}

// innermost returns the innermost invocation of a thread, or nil.
func (w *world) innermost(thread string) *entity {
	if t := w.find(Thread, thread); t != nil {
		return t.top
	}
	return w.tops[thread]
}

func (w *world) setInnermost(thread string, x *entity) {
	switch t := w.find(Thread, thread); {
	case t != nil:
		t.top = x
	case x == nil:
		delete(w.tops, thread)
	default:
		w.tops[thread] = x
	}
}

// remember returns e with the entities that it refers to now.
func (w *world) remember(e Event) past {
	p := past{Event: e, thread: w.find(Thread, e.Thread), parent: w.find(e.Category, e.Parent), other: w.any(e.Other)}
	p.Thread, p.Parent = w.known(p.thread, e.Thread, Thread), w.known(p.parent, e.Parent, e.Category)
	p.Other = w.known(p.other, e.Other, Object, Type, Thread, Invocation)
	return p
}

// known returns id if it identifies x or cannot identify an unrecorded entity of one of the
// categories, else Unknown.
func (w *world) known(x *entity, id string, of ...Category) string {
	if x == nil && id != "" && w.lacks(of...) {
		return Unknown
	}
	return id
}

// add records the entity that e creates.
func (w *world) add(e Event) *entity {
	w.made++
	x := &entity{category: e.Category, id: e.Entity, number: w.made, create: w.remember(e)}
	if e.Category != Type {
		x.class = w.types[e.TypeName]
	}
	switch e.Category {
	case Type:
		if e.Name != "" {
			w.types[e.Name] = x
		}
	case Invocation:
		x.on, x.under = e.Thread, w.innermost(e.Thread)
		if e.Parent == "" {
			x.create.parent = x.under
		}
		w.setInnermost(e.Thread, x)
	case Thread:
		if top := w.tops[e.Entity]; top != nil { // it invoked before its creation was seen
			x.top = top
			delete(w.tops, e.Entity)
		}
	}
	w.live[e.Category][e.Entity] = x
	w.size++
	return x
}

// remove removes x, which has ended. Live entities may still refer to it and need only know
// that it has ended, so its own past is dropped.
func (w *world) remove(x *entity) {
	if (x.category == Object || x.category == Type) && w.any(x.id) == x {
		w.dropLocks(x.id)
	}
	if w.live[x.category][x.id] == x {
		delete(w.live[x.category], x.id)
	}
	if w.types[x.create.Name] == x {
		delete(w.types, x.create.Name)
	}
	if x.category == Invocation && w.innermost(x.on) == x {
		w.setInnermost(x.on, x.under)
	}
	w.size--
	*x = entity{category: x.category, id: x.id, number: x.number, ended: true}
}

// lock records a thread's use of a lock.
func (w *world) lock(id, thread string, l *lock) {
	if w.locks[id] == nil {
		w.locks[id] = map[string]*lock{}
	}
	if w.holds[thread] == nil {
		w.holds[thread] = map[string]bool{}
	}
	w.locks[id][thread], w.holds[thread][id] = l, true
	w.size++
}

// unlock removes a thread's use of a lock.
func (w *world) unlock(id, thread string) {
	delete(w.locks[id], thread)
	if len(w.locks[id]) == 0 {
		delete(w.locks, id)
	}
	delete(w.holds[thread], id)
	if len(w.holds[thread]) == 0 {
		delete(w.holds, thread)
	}
	w.size--
}

// dropLocks removes all threads' uses of a lock.
func (w *world) dropLocks(id string) {
	for thread := range w.locks[id] {
		w.unlock(id, thread)
	}
}

// move changes the identity of x, an object.
func (w *world) move(x *entity, id string) {
	if x.id == id {
		return
	}
	delete(w.live[x.category], x.id)
	w.dropLocks(id)
	for thread, l := range w.locks[x.id] {
		w.unlock(x.id, thread)
		w.lock(id, thread, l)
	}
	x.id = id
	w.live[x.category][id] = x
}
