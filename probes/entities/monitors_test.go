package entities

import "testing"

// TestMonitors: the holder of a Java monitor is known once a thread has waited
// for it and two lookups agreed, and as long as some thread waits.
func TestMonitors(t *testing.T) {
	x := newRecorder(true)
	for tid := 1; tid <= 3; tid++ {
		x.start(1, tid, "t", uint64(tid), nil)
	}
	has := 2
	var later []event
	x.owner = func(int, uint64) (int, int64, bool) { return has, x.now, has != 0 }
	x.enqueue = func(h event) { later = append(later, h) }
	at := func(place string, tid int) {
		x.feed(event{kind: locking, tid: tid, name: "usdt:hotspot:monitor__" + place, arg1: 0x40})
	}
	wait := func() {
		x.time += waitThreshold
		x.emitWaits(x.time)
		for _, h := range later {
			x.feed(h)
		}
		later = nil
	}
	at("contended__enter", 1)
	has = 3
	wait()
	has = 2 // it has changed hands
	wait()
	x.expect(t, "BEGIN_WAIT 1:0x40 name=monitor on=1#1")
	wait()
	wait()
	x.expect(t, "ACQUIRE 1:0x40 name=monitor on=2#2")
	at("contended__enter", 3)
	at("contended__exit", 2)
	at("contended__entered", 1)
	x.expect(t, "BEGIN_WAIT 1:0x40 name=monitor other=2#2 on=3#3", "RELEASE 1:0x40 name=monitor on=2#2",
		"END_WAIT 1:0x40 name=monitor on=1#1", "ACQUIRE 1:0x40 name=monitor on=1#1")
	x.end(x.known(1, 3)) // no thread waits any more: the release by 1 is not reported
	x.expect(t, "END_WAIT 1:0x40 name=monitor on=3#3", "UNKNOWN 1:0x40 name=monitor on=1#1")
	at("contended__exit", 1)
	x.expect(t)
	at("contended__enter", 1)
	x.lines = nil
	has = 1 // it has acquired it; the event comes later
	wait()
	wait()
	x.expect(t)
	at("contended__entered", 1)
	x.expect(t, "END_WAIT 1:0x40 name=monitor on=1#1")
	if n := len(x.programs[1].locks); n != 0 {
		t.Errorf("%d monitors are remembered for nothing", n)
	}
}

// TestUnloading: a class that is unloaded ends once for all processes that have
// it.
func TestUnloading(t *testing.T) {
	x := newRecorder(false)
	x.byUse = true
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.call(entered, 1, 0, "A::f", 0, "")
	x.call(left, 1, 0, "A::f", 0, "")
	x.lines = nil
	x.feed(event{kind: unloaded, name: "B"})
	x.feed(event{kind: unloaded, name: "A"})
	x.feed(event{kind: unloaded, name: "A"})
	x.expect(t, "type RECLAIM A name=A")
	x.call(entered, 1, 0, "A::f", 0, "")
	x.expect(t, "type CREATE A#2 name=A on=1#5", "type LOAD A#2 name=A on=1#5", "invocation ENTER 1#5/2 name=A::f type=A on=1#5")
}
