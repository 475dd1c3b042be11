package entities

import (
	"testing"
)

// frame adds an event of a call whose return address is at frame.
func (x *recorder) frame(k kind, depth int, name string, frame uint64) {
	x.feed(event{kind: k, tid: 1, depth: depth, name: name, frame: frame})
}

// found adds the calls found on the stack of thread 1, outermost first.
func (x *recorder) found(known uint64, calls ...openCall) {
	x.applyFrames([]openCalls{{pid: 1, tid: 1, low: 0x1000, high: 0x9000, calls: calls}}, func(*openCalls) uint64 { return known })
}

// TestFoundCalls: calls found on a stack enclose later ones. They end when
// their return is seen, or at the latest when another call has their place on
// the stack.
func TestFoundCalls(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.found(0, openCall{"main", "", 0x8000}, openCall{"serve", "", 0x7000}, openCall{"await", "", 0x6000})
	x.expect(t, "invocation ENTER 1#5/1 name=main on=1#5", "invocation ENTER 1#5/2 name=serve parent=1#5/1 on=1#5", "invocation ENTER 1#5/3 name=await parent=1#5/2 on=1#5")
	x.frame(over, 0, "await", 0x6000)
	x.frame(entered, 0, "leaf", 0x6000)
	x.expect(t, "invocation LEAVE 1#5/3 name=await on=1#5", "invocation ENTER 1#5/4 name=leaf parent=1#5/2 on=1#5")
	x.frame(left, 0, "leaf", 0x6000)
	x.frame(entered, 0, "next", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/4 name=leaf on=1#5", "invocation UNKNOWN 1#5/2 name=serve on=1#5", "invocation ENTER 1#5/5 name=next parent=1#5/1 on=1#5")
	x.frame(entered, 1, "missed", 0x6800)
	x.lines = nil
	x.frame(entered, 3, "behind", 0x5000) // its entry was not seen
	x.expect(t, "invocation UNKNOWN 1#5/6 name=missed on=1#5", "invocation UNKNOWN 1#5/5 name=next on=1#5", "invocation ENTER 1#5/7 name=behind parent=1#5/1 on=1#5")
}

// TestSeenBefore: a call that is entered while stacks are read, and also found
// there, is one call.
func TestSeenBefore(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.found(0x7000, openCall{"main", "", 0x8000}, openCall{"serve", "", 0x7000}, openCall{"leaf", "", 0x6000})
	x.frame(entered, 0, "serve", 0x7000)
	x.frame(entered, 1, "leaf", 0x6000)
	x.expect(t, "invocation ENTER 1#5/1 name=main on=1#5", "invocation ENTER 1#5/2 name=serve parent=1#5/1 on=1#5", "invocation ENTER 1#5/3 name=leaf parent=1#5/2 on=1#5")
	x.frame(left, 1, "leaf", 0x6000)
	x.frame(left, 0, "serve", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/3 name=leaf on=1#5", "invocation LEAVE 1#5/2 name=serve on=1#5")
}

// TestHushedConstructorStillMakesItsObject: after a suspension the open calls
// are found. A constructor that was reported meanwhile is placed inside them,
// and still creates its object.
func TestHushedConstructorStillMakesItsObject(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.frame(entered, 0, "serve", 0x7000)
	x.feed(event{kind: suspending, suspension: suspension{all: true}})
	x.lines = nil
	x.feed(event{kind: entered, tid: 1, depth: 1, name: "A::A", class: "A", receiver: 16, hasReceiver: true, frame: 0x5000})
	x.expect(t, "object CREATE 1:0x10#1 type=A on=1#5", "invocation ENTER 1#5/2 name=A::A type=A parent=1#5/1 other=1:0x10#1 on=1#5")
	x.found(0, openCall{"serve", "", 0x7000}, openCall{"job", "", 0x6000}, openCall{"A::A", "A", 0x5000})
	x.suspension = suspension{}
	x.expect(t, "invocation UNKNOWN 1#5/2 name=A::A type=A on=1#5", "invocation ENTER 1#5/3 name=job parent=1#5/1 on=1#5",
		"invocation ENTER 1#5/4 name=A::A type=A parent=1#5/3 other=1:0x10#1 on=1#5")
	x.feed(event{kind: unwound, tid: 1, depth: 1, name: "A::A", frame: 0x5000})
	x.frame(entered, 1, "leaf", 0x5000)
	x.frame(left, 1, "leaf", 0x5000)
	x.frame(over, 0, "job", 0x6000)
	x.frame(left, 0, "serve", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/4 name=A::A type=A on=1#5", "object RECLAIM 1:0x10#1 type=A on=1#5",
		"invocation ENTER 1#5/5 name=leaf parent=1#5/3 on=1#5", "invocation LEAVE 1#5/5 name=leaf on=1#5",
		"invocation LEAVE 1#5/3 name=job on=1#5", "invocation LEAVE 1#5/1 name=serve on=1#5")
	// A call that was found, and is not on the stack at the second look, has
	// ended.
	x.found(0, openCall{"main", "", 0x8000}, openCall{"serve", "", 0x7000})
	x.lines = nil
	x.found(0, openCall{"main", "", 0x8000})
	x.expect(t, "invocation UNKNOWN 1#5/7 name=serve on=1#5")
}
