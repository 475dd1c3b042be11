package consistency

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func apply(p Present, events ...Event) {
	for _, e := range events {
		p.Apply(e)
	}
}

func expect(t *testing.T, p Present, want string) {
	t.Helper()
	if got := p.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestWaitsFindsOwnersAndDeadlocks checks owners, deadlocks of two and of three threads,
// and that threads that wait for a deadlock are not part of it.
func TestWaitsFindsOwnersAndDeadlocks(t *testing.T) {
	w := NewWaits()
	on := func(k Kind, lock, thread string) {
		w.Apply(Event{Kind: k, Entity: lock, Thread: thread, Name: "t" + thread})
	}
	on(Acquire, "a", "1")
	on(Acquire, "b", "2")
	on(BeginWait, "b", "1")
	expect(t, w, "t1 1 waits for b, which t2 2 has")
	on(BeginWait, "a", "3")
	on(BeginWait, "a", "2")
	expect(t, w, "t1 1 waits for b, which t2 2 has\nt2 2 waits for a, which t1 1 has\nt3 3 waits for a, which t1 1 has\ndeadlock: t1 1, t2 2")
	on(EndWait, "a", "2")
	on(Release, "b", "2")
	on(EndWait, "b", "1")
	on(Acquire, "b", "1")
	on(Acquire, "b", "1") // twice
	on(Release, "b", "1")
	on(BeginWait, "b", "2")
	expect(t, w, "t2 2 waits for b, which t1 1 has\nt3 3 waits for a, which t1 1 has")
	on(Ended, "b", "1") // it is unknown whether it holds it
	expect(t, w, "t2 2 waits for b\nt3 3 waits for a, which t1 1 has")
	for _, thread := range []string{"1", "2", "3"} {
		w.Apply(Event{Category: Thread, Kind: Reclaim, Entity: thread})
	}
	if expect(t, w, ""); w.Size() != 0 {
		t.Errorf("%d bytes are left", w.Size())
	}
}

// TestWaitsForget checks that threads that have come and gone leave nothing behind, even if
// their end is not reported.
func TestWaitsForget(t *testing.T) {
	w := NewWaits()
	for i := range 1000 {
		thread := fmt.Sprint(i)
		for _, k := range []Kind{BeginWait, EndWait, Acquire, Acquire, Release, Release} {
			w.Apply(Event{Kind: k, Entity: "a", Thread: thread, Name: "t" + thread})
			if i == 0 && k == BeginWait {
				expect(t, w, "t0 0 waits for a")
			}
		}
		w.Apply(Event{Kind: Acquire, Entity: "b", Thread: thread, Name: "t" + thread})
		w.Apply(Event{Kind: Ended, Entity: "b", Thread: thread, Name: "t" + thread})
	}
	if w.Size() != 0 {
		t.Errorf("%d bytes are left", w.Size())
	}
}

// TestWaitsAfterLoss checks that events reported again after a loss restore the state: for
// a stream of locks only, and for one that also has threads. If locks may be objects that
// were not reported again yet, nothing is reported of them.
func TestWaitsAfterLoss(t *testing.T) {
	locks := []Event{
		{Kind: Acquire, Entity: "a", Thread: "1"},
		{Kind: Acquire, Entity: "b", Thread: "2"},
		{Kind: BeginWait, Entity: "b", Thread: "1", Other: "2"},
		{Kind: BeginWait, Entity: "a", Thread: "2", Other: "1"},
	}
	threads := []Event{{Category: Thread, Kind: Create, Entity: "1"}, {Category: Thread, Kind: Create, Entity: "2"}}
	object := []Event{{Category: Object, Kind: Create, Entity: "a"}}
	const deadlock = "1 waits for b, which 2 has\n2 waits for a, which 1 has\ndeadlock: 1, 2"
	for _, c := range []struct {
		what           string
		before, retold []Event // besides lock events
		want           string
	}{
		{"locks", nil, nil, deadlock},
		{"threads", threads, threads, deadlock},
		{"threads, not retold", threads, nil, ""},
		{"an object, not retold", object, nil, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := NewWaits()
			k := NewKeeper(func(r Report) { w.Apply(r.Event) }, 0)
			push := func(events []Event) {
				for _, e := range events {
					k.Push(e, true, "")
				}
			}
			push(c.before)
			push(locks)
			expect(t, w, deadlock)
			k.Lost()
			expect(t, w, "")
			push(c.retold)
			push(locks)
			expect(t, w, c.want)
		})
	}
}

// TestWaitsUnderPartialReporting checks on random programs with locks that the reports of a
// keeper, whatever is selected, show no false deadlock, and every deadlock whose waits are
// all selected.
func TestWaitsUnderPartialReporting(t *testing.T) {
	deadlocks := 0
	rapid.Check(t, func(t *rapid.T) {
		real, told := NewWaits(), NewWaits()
		k := NewKeeper(func(r Report) { told.Apply(r.Event) }, 0)
		by := rapid.IntRange(0, 2).Draw(t, "by")
		holds, waits := map[string]string{}, map[string]string{} // lock: thread; thread: lock
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			thread, lock := fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "thread")), fmt.Sprint("l", rapid.IntRange(1, 4).Draw(t, "lock"))
			e := Event{Entity: lock, Thread: thread}
			switch {
			case waits[thread] != "":
				if lock = waits[thread]; holds[lock] != "" {
					continue
				}
				e.Entity = lock
				e.Kind = EndWait
				delete(waits, thread)
			case holds[lock] == thread:
				e.Kind = Release
				delete(holds, lock)
			case holds[lock] == "":
				e.Kind = Acquire
				holds[lock] = thread
			default:
				e.Kind = BeginWait
				waits[thread] = lock
			}
			real.Apply(e)
			k.Push(e, by == 0 && e.Kind == BeginWait || by == 1 && thread == "1" || by == 2 && e.Kind != Release, thread)
			now, said := fmt.Sprint(real.Deadlocks()), fmt.Sprint(told.Deadlocks())
			if said != "[]" && said != now {
				t.Fatalf("told of %s, there is %s", said, now)
			}
			if by == 2 && said != now {
				t.Fatalf("told of %s, all waits and owners of %s were selected", said, now)
			}
			if now != "[]" {
				deadlocks++
			}
		}
	})
	if deadlocks == 0 {
		t.Error("no program had a deadlock")
	}
}

// TestObjects counts by type, with ages.
func TestLiveObjects(t *testing.T) {
	o := NewObjects()
	const second = int64(1e9)
	apply(o,
		Event{Time: 0, Category: Object, Kind: Create, Entity: "1", TypeName: "Shape"},
		Event{Time: second, Category: Object, Kind: Create, Entity: "2", TypeName: "Shape"},
		Event{Time: 2 * second, Category: Object, Kind: Create, Entity: "3"},
		Event{Time: 3 * second, Kind: Move, Entity: "3", Other: "4"})
	expect(t, o, "2 Shape, 2s to 3s old\n1 of unknown type, 1s to 1s old")
	apply(o, Event{Time: 4 * second, Category: Object, Kind: Reclaim, Entity: "1"}, Event{Time: 4 * second, Category: Object, Kind: Ended, Entity: "4"})
	expect(t, o, "1 Shape, 3s to 3s old")
}

// TestCalls checks that calls of one name below one call are one line.
func TestCalls(t *testing.T) {
	c := NewCalls()
	in := func(id, parent, name string) {
		c.Apply(Event{Category: Invocation, Kind: Enter, Entity: id, Parent: parent, Name: name})
	}
	out := func(id string) { c.Apply(Event{Category: Invocation, Kind: Leave, Entity: id}) }
	in("1", "", "main")
	for i := range 3 {
		id := fmt.Sprint("w", i)
		in(id, "1", "work")
		in(id+"'", id, "area")
		out(id + "'")
		if i < 2 {
			out(id)
		}
	}
	in("x", "1", "exit")
	expect(t, c, "main 1 (1 now)\n  work 3 (1 now)\n    area 3\n  exit 1 (1 now)")
	before := c.Size()
	for i := range 1000 {
		in(fmt.Sprint(i), "1", "work")
		out(fmt.Sprint(i))
	}
	if c.Size() != before {
		t.Errorf("%d bytes, and %d before: it grows with calls", c.Size(), before)
	}
}

// TestReferences checks that the end of an object removes the references to it.
func TestReferences(t *testing.T) {
	r := NewReferences()
	for _, id := range []string{"1", "2", "3"} {
		r.Apply(Event{Category: Object, Kind: Create, Entity: id, TypeName: "T"})
	}
	apply(r, Event{Kind: Reference, Entity: "1", Other: "2"}, Event{Kind: Reference, Entity: "2", Other: "3"}, Event{Kind: Reference, Entity: "3", Other: "1"})
	expect(t, r, "T 1 -> T 2\nT 2 -> T 3\nT 3 -> T 1")
	r.Apply(Event{Kind: Move, Entity: "2", Other: "5"})
	expect(t, r, "T 1 -> T 5\nT 3 -> T 1\nT 5 -> T 3")
	r.Apply(Event{Category: Object, Kind: Reclaim, Entity: "1"})
	expect(t, r, "T 5 -> T 3")
	r.Apply(Event{Category: Object, Kind: Reclaim, Entity: "3"})
	r.Apply(Event{Category: Object, Kind: Reclaim, Entity: "5"})
	if r.Size() != 0 {
		t.Errorf("%d bytes are left", r.Size())
	}
}
