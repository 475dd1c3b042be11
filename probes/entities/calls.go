package entities

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// structor is what a function does to the object that it is called on.
type structor uint8

const (
	method structor = iota
	constructor
	destructor
)

// structorOf tells by its names what a function is. mangled is as the Itanium C++
// ABI has it: constructors end in C1, C2 or C4 before their parameters, destructors
// in D0, D1, D2 or D4.
func structorOf(name, class, mangled string) structor {
	own, ok := strings.CutPrefix(name, class+"::")
	if !ok || class == "" || !strings.HasPrefix(mangled, "_Z") {
		return method
	}
	if strings.HasPrefix(own, "~") {
		return destructor
	}
	if own, _, _ = strings.Cut(own, "<"); own == simpleName(class) && hasConstructor(mangled) {
		return constructor
	}
	return method
}

// hasConstructor reports whether a mangled name may be that of a constructor: a
// namespace may have a function of its own name.
func hasConstructor(mangled string) bool {
	for _, mark := range []string{"C1", "C2", "C4"} {
		if i := strings.LastIndex(mangled, mark); i > 0 {
			return true
		}
	}
	return false
}

// simpleName is a class' name without what qualifies it, and without the arguments
// of a template: what its constructors are called.
func simpleName(class string) string {
	depth, from := 0, 0
	end := len(class)
	for i := 0; i < len(class); i++ {
		switch class[i] {
		case '<', '(', '{':
			if depth == 0 {
				end = i
			}
			depth++
		case '>', ')', '}':
			depth--
		case ':':
			if depth == 0 {
				from, end = i+1, len(class)
			}
		}
	}
	return class[from:max(from, end)]
}

// object is one that lives.
type object struct {
	id, class string
	address   uint64
	number    uint64
}

// inOrder are the objects of a program as they were made.
func (p *program) inOrder() []*object {
	return slices.SortedFunc(maps.Values(p.objects), func(a, b *object) int { return cmp.Compare(a.number, b.number) })
}

// make takes in an object.
func (w *world) makeObject(p *program, on *thread, address uint64, class string) *object {
	if old := p.objects[address]; old != nil {
		w.reclaimObject(p, on, old, reclaim) // what has no destructor ends at the latest now
	}
	p.made++
	o := &object{class: class, address: address, number: p.made,
		id: strconv.Itoa(p.pid) + ":0x" + strconv.FormatUint(address, 16) + "#" + strconv.FormatUint(p.made, 10)}
	p.objects[address] = o
	w.event(p, on, row{category: objectCategory, event: create, entity: o.id, class: class})
	return o
}

func (w *world) reclaimObject(p *program, on *thread, o *object, how string) {
	delete(p.objects, o.address)
	w.event(p, on, row{category: objectCategory, event: how, entity: o.id, class: o.class})
}

// doubtObjects ends all objects of a program, of which any may be gone.
func (w *world) doubtObjects(p *program, on *thread) {
	for _, o := range p.inOrder() {
		w.reclaimObject(p, on, o, unknown)
	}
}

// sequence is the calls of a thread that have not ended, outermost first: those that
// the probes follow, which count for depth, and those that were found on the stack.
type sequence struct {
	base     int // followed calls around them, of which nothing is known
	followed int // of calls
	calls    []call
	// low and high are the bounds of the mapping that has the frames of those found.
	low, high uint64
}

// depth is that of the next call.
func (s *sequence) depth() int { return s.base + s.followed }

type call struct {
	id, name, class string
	frame           uint64  // where on the stack its return address lies; 0: not known
	found           bool    // on the stack: its entry was not seen
	unheard         bool    // it was entered while others may have been overlooked
	object          *object // on which it is; nil: none is known
	structor        structor
	whole           bool // it makes or ends the whole object, and no part of it
}

// enter takes in a call.
func (w *world) enter(t *thread, h happening) {
	w.settleFrames(t, h.frame)
	if h.depth != t.calls.depth() {
		w.miss(t, h.depth)
	}
	if w.byUse {
		w.use(t.program, t, h.class)
	}
	c := call{name: h.name, class: h.class, structor: w.structors[h.name], frame: h.frame, unheard: w.ignores(t)}
	if h.hasReceiver {
		w.receive(t, h, &c)
	}
	t.calls.followed++
	w.begin(t, c)
}

// begin tells of a call that is the innermost one now.
func (w *world) begin(t *thread, c call) {
	t.made++
	c.id = t.id + "/" + strconv.FormatUint(t.made, 10)
	t.calls.calls = append(t.calls.calls, c)
	w.tellCall(t, len(t.calls.calls)-1)
}

// receive finds the object of a call. The first constructor that is called on it
// makes it; those of its bases, which that calls, do not. An object that nobody
// saw made, but which says what it is, is there from its first call on.
func (w *world) receive(t *thread, h happening, c *call) {
	p := t.program
	o := p.objects[h.receiver]
	within := func(s structor) bool {
		return slices.ContainsFunc(t.calls.calls, func(c call) bool {
			return c.structor == s && c.object != nil && c.object.address == h.receiver
		})
	}
	switch {
	case c.structor == constructor:
		if c.whole = !within(constructor) && !within(destructor); c.whole || o == nil {
			o = w.makeObject(p, t, h.receiver, h.class)
		}
	case o == nil && c.structor == destructor:
		o = w.makeObject(p, t, h.receiver, cmp.Or(h.receiverClass, h.class))
		c.whole = true
	case c.structor == destructor:
		c.whole = !within(destructor) && !within(constructor)
	case o == nil && h.receiverClass != "":
		o = w.makeObject(p, t, h.receiver, h.receiverClass)
	}
	c.object = o
}

func (w *world) tellCall(t *thread, i int) {
	c := &t.calls.calls[i]
	r := row{category: invocationCategory, event: enter, entity: c.id, name: c.name, class: c.class, found: c.found}
	if i > 0 {
		r.parent = t.calls.calls[i-1].id
	}
	if c.object != nil && t.program.objects[c.object.address] == c.object {
		r.other = c.object.id
	}
	w.event(t.program, t, r)
}

// leave takes away a call, and what its end ends.
func (w *world) leave(t *thread, h happening) {
	switch {
	case h.frame != 0:
		w.leaveFrame(t, h)
		return
	case h.depth < t.calls.base:
		t.calls.base = h.depth // one of those around
		return
	}
	for t.calls.depth() > h.depth {
		w.pop(t, leave, h.kind == unwound)
	}
}

// pop ends the innermost call.
func (w *world) pop(t *thread, how string, abandoned bool) {
	last := len(t.calls.calls) - 1
	c := t.calls.calls[last]
	t.calls.calls[last] = call{}
	t.calls.calls = t.calls.calls[:last]
	if !c.found {
		t.calls.followed--
	}
	w.event(t.program, t, row{category: invocationCategory, event: how, entity: c.id, name: c.name, class: c.class})
	o := c.object
	if o == nil || !c.whole || how == unknown || t.program.objects[o.address] != o {
		return
	}
	if c.structor == destructor || abandoned { // a constructor that throws makes nothing
		w.reclaimObject(t.program, t, o, reclaim)
	}
}

// leaveAll ends all calls of a thread.
func (w *world) leaveAll(t *thread, how string) {
	for len(t.calls.calls) > 0 {
		w.pop(t, how, how == leave)
	}
}

// miss is of a thread of which events are missing before the next, which is at
// depth: what is known of its calls is over, and of objects, since constructors and
// destructors may be among what is missing.
func (w *world) miss(t *thread, depth int) {
	for t.calls.followed > 0 {
		w.pop(t, unknown, false)
	}
	t.calls.base = depth
	w.doubtObjects(t.program, t)
}
