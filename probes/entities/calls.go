package entities

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// structor says whether a function constructs or destroys the object it is
// called on.
type structor uint8

const (
	method structor = iota
	constructor
	destructor
)

// structorOf classifies a function by its names. mangled follows the Itanium
// C++ ABI: constructors end in C1, C2 or C4 before their parameters,
// destructors in D0, D1, D2 or D4.
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

// hasConstructor reports whether a mangled name may be that of a constructor.
// It distinguishes a constructor from a function of a namespace that has the
// namespace's name.
func hasConstructor(mangled string) bool {
	for _, mark := range []string{"C1", "C2", "C4"} {
		if i := strings.LastIndex(mangled, mark); i > 0 {
			return true
		}
	}
	return false
}

// simpleName returns the name of a class without qualifiers and template
// arguments: the name of its constructors.
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

// object is a live object.
type object struct {
	id, class string
	address   uint64
	number    uint64
}

// inOrder returns the objects of a program in order of creation.
func (p *program) inOrder() []*object {
	return slices.SortedFunc(maps.Values(p.objects), func(a, b *object) int { return cmp.Compare(a.number, b.number) })
}

// makeObject adds an object, and ends the one that had its address.
func (w *world) makeObject(p *program, on *thread, address uint64, class string) *object {
	if old := p.objects[address]; old != nil {
		w.reclaimObject(p, on, old, reclaim) // an object without destructor ends here at the latest
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

// endObjects ends all objects of a program as UNKNOWN, since any of them may
// be gone.
func (w *world) endObjects(p *program, on *thread) {
	for _, o := range p.inOrder() {
		w.reclaimObject(p, on, o, unknown)
	}
}

// sequence is the open calls of a thread, outermost first: those that the
// probes follow, which count for depth, and those found on the stack.
type sequence struct {
	base     int // followed calls outside them, of which nothing is known
	followed int // number of calls that count for depth
	calls    []call
	// low and high are the bounds of the mapping that contains the frames of
	// found calls.
	low, high uint64
}

// depth returns the depth of the next call.
func (s *sequence) depth() int { return s.base + s.followed }

type call struct {
	id, name, class  string
	frame            uint64  // address of its return address on the stack; 0: unknown
	found            bool    // found on the stack: its entry was not seen
	duringSuspension bool    // entered while other calls may have been suppressed
	object           *object // receiver; nil: unknown
	structor         structor
	whole            bool // it constructs or destroys the whole object, not only a base
}

// enter handles the entry of a call.
func (w *world) enter(t *thread, h event) {
	w.endPassedFrames(t, h.frame)
	if h.depth != t.calls.depth() {
		w.callsMissed(t, h.depth)
	}
	if w.byUse {
		w.use(t.program, t, h.class)
	}
	c := call{name: h.name, class: h.class, structor: w.structors[h.name], frame: h.frame, duringSuspension: w.ignores(t)}
	if h.hasReceiver {
		w.receive(t, h, &c)
	}
	t.calls.followed++
	w.begin(t, c)
}

// begin appends c as the innermost call and emits its ENTER.
func (w *world) begin(t *thread, c call) {
	t.made++
	c.id = t.id + "/" + strconv.FormatUint(t.made, 10)
	t.calls.calls = append(t.calls.calls, c)
	w.emitCall(t, len(t.calls.calls)-1)
}

// receive sets the object of a call. The first constructor called on an address
// creates the object; constructors of bases, which it calls, do not. An object
// whose construction was not seen, but whose class is known, exists from its
// first call on.
func (w *world) receive(t *thread, h event, c *call) {
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

func (w *world) emitCall(t *thread, i int) {
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

// leave handles the return of a call, and ends what ends with it.
func (w *world) leave(t *thread, h event) {
	switch {
	case h.frame != 0:
		w.leaveFrame(t, h)
		return
	case h.depth < t.calls.base:
		t.calls.base = h.depth // one of the calls outside
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
	if c.structor == destructor || abandoned { // a constructor that throws creates nothing
		w.reclaimObject(t.program, t, o, reclaim)
	}
}

// leaveAll ends all calls of a thread.
func (w *world) leaveAll(t *thread, how string) {
	for len(t.calls.calls) > 0 {
		w.pop(t, how, how == leave)
	}
}

// callsMissed handles missing events of a thread; the next call is at depth. Its known
// calls end as UNKNOWN, and so do the objects of its program, since
// constructors and destructors may be among the missing events.
func (w *world) callsMissed(t *thread, depth int) {
	for t.calls.followed > 0 {
		w.pop(t, unknown, false)
	}
	t.calls.base = depth
	w.endObjects(t.program, t)
}
