package entities

import (
	"testing"
)

// frame is of a call k of a function that has its return address at frame.
func (x *told) frame(k kind, depth int, name string, frame uint64) {
	x.tell(happening{kind: k, tid: 1, depth: depth, name: name, frame: frame})
}

// found takes in what thread 1 is found in, the outermost first.
func (x *told) found(known uint64, calls ...standingCall) {
	x.takeInFrames([]standing{{pid: 1, tid: 1, low: 0x1000, high: 0x9000, calls: calls}}, func(*standing) uint64 { return known })
}

// TestFoundCalls: calls that are found on a stack are around those that come, and end
// when their return is seen, or at the latest when another call has their place.
func TestFoundCalls(t *testing.T) {
	x := newTold(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.found(0, standingCall{"main", "", 0x8000}, standingCall{"serve", "", 0x7000}, standingCall{"await", "", 0x6000})
	x.expect(t, "invocation ENTER 1#5/1 name=main on=1#5", "invocation ENTER 1#5/2 name=serve parent=1#5/1 on=1#5", "invocation ENTER 1#5/3 name=await parent=1#5/2 on=1#5")
	x.frame(over, 0, "await", 0x6000)
	x.frame(entered, 0, "leaf", 0x6000)
	x.expect(t, "invocation LEAVE 1#5/3 name=await on=1#5", "invocation ENTER 1#5/4 name=leaf parent=1#5/2 on=1#5")
	x.frame(left, 0, "leaf", 0x6000)
	x.frame(entered, 0, "next", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/4 name=leaf on=1#5", "invocation UNKNOWN 1#5/2 name=serve on=1#5", "invocation ENTER 1#5/5 name=next parent=1#5/1 on=1#5")
	x.frame(entered, 1, "missed", 0x6800)
	x.lines = nil
	x.frame(entered, 3, "behind", 0x5000) // one was not told of
	x.expect(t, "invocation UNKNOWN 1#5/6 name=missed on=1#5", "invocation UNKNOWN 1#5/5 name=next on=1#5", "invocation ENTER 1#5/7 name=behind parent=1#5/1 on=1#5")
}

// TestSeenBefore: what was entered while the threads were looked at, and was found
// there, too, is one call.
func TestSeenBefore(t *testing.T) {
	x := newTold(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.found(0x7000, standingCall{"main", "", 0x8000}, standingCall{"serve", "", 0x7000}, standingCall{"leaf", "", 0x6000})
	x.frame(entered, 0, "serve", 0x7000)
	x.frame(entered, 1, "leaf", 0x6000)
	x.expect(t, "invocation ENTER 1#5/1 name=main on=1#5", "invocation ENTER 1#5/2 name=serve parent=1#5/1 on=1#5", "invocation ENTER 1#5/3 name=leaf parent=1#5/2 on=1#5")
	x.frame(left, 1, "leaf", 0x6000)
	x.frame(left, 0, "serve", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/3 name=leaf on=1#5", "invocation LEAVE 1#5/2 name=serve on=1#5")
}

// TestHushedConstructorStillMakesItsObject: behind a time in which calls were overlooked, those under way are found;
// a constructor that was told of meanwhile comes to lie within them, and still makes
// its object.
func TestHushedConstructorStillMakesItsObject(t *testing.T) {
	x := newTold(false)
	x.start(1, 1, "main", 5, nil)
	x.frame(entered, 0, "serve", 0x7000)
	x.tell(happening{kind: suspending, suspension: suspension{all: true}})
	x.lines = nil
	x.tell(happening{kind: entered, tid: 1, depth: 1, name: "A::A", class: "A", receiver: 16, hasReceiver: true, frame: 0x5000})
	x.expect(t, "object CREATE 1:0x10#1 type=A on=1#5", "invocation ENTER 1#5/2 name=A::A type=A parent=1#5/1 other=1:0x10#1 on=1#5")
	x.found(0, standingCall{"serve", "", 0x7000}, standingCall{"job", "", 0x6000}, standingCall{"A::A", "A", 0x5000})
	x.suspension = suspension{}
	x.expect(t, "invocation UNKNOWN 1#5/2 name=A::A type=A on=1#5", "invocation ENTER 1#5/3 name=job parent=1#5/1 on=1#5",
		"invocation ENTER 1#5/4 name=A::A type=A parent=1#5/3 other=1:0x10#1 on=1#5")
	x.tell(happening{kind: unwound, tid: 1, depth: 1, name: "A::A", frame: 0x5000})
	x.frame(entered, 1, "leaf", 0x5000)
	x.frame(left, 1, "leaf", 0x5000)
	x.frame(over, 0, "job", 0x6000)
	x.frame(left, 0, "serve", 0x7000)
	x.expect(t, "invocation LEAVE 1#5/4 name=A::A type=A on=1#5", "object RECLAIM 1:0x10#1 type=A on=1#5",
		"invocation ENTER 1#5/5 name=leaf parent=1#5/3 on=1#5", "invocation LEAVE 1#5/5 name=leaf on=1#5",
		"invocation LEAVE 1#5/3 name=job on=1#5", "invocation LEAVE 1#5/1 name=serve on=1#5")
	// One that was found, and is not when it is looked again, is gone.
	x.found(0, standingCall{"main", "", 0x8000}, standingCall{"serve", "", 0x7000})
	x.lines = nil
	x.found(0, standingCall{"main", "", 0x8000})
	x.expect(t, "invocation UNKNOWN 1#5/7 name=serve on=1#5")
}
