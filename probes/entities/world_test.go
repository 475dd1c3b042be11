package entities

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/elf"
)

// recorder is a world with one program, and records the rows it emits.
type recorder struct {
	*world
	lines []string
	time  int64
}

func newRecorder(activity bool) *recorder {
	x := &recorder{}
	x.world = newWorld(func(r row) {
		on := ""
		if r.thread != nil {
			on = r.thread.id
		}
		fields := []string{strings.ToLower(r.category), r.event, r.entity}
		for _, f := range []struct{ name, value string }{{"name", r.name}, {"type", r.class}, {"parent", r.parent}, {"other", r.other}, {"on", on}} {
			if f.value != "" {
				fields = append(fields, f.name+"="+f.value)
			}
		}
		x.lines = append(x.lines, strings.TrimSpace(strings.Join(fields, " ")))
	})
	x.activity = activity
	if !activity {
		for _, c := range []string{typeCategory, objectCategory, threadCategory, invocationCategory} {
			x.entities[c] = true
		}
	}
	x.look = func(_, tid int) (string, uint64, bool) { return fmt.Sprint("t", tid), 7, true }
	x.lookupNames = func(pid int) (string, string) { return fmt.Sprint("p", pid), "/bin/p" }
	x.structors = map[string]structor{"A::A": constructor, "B::B": constructor, "A::~A": destructor, "B::~B": destructor}
	return x
}

func (x *recorder) feed(h event) {
	x.time += 10
	h.time = x.time
	if h.pid == 0 {
		h.pid = 1
	}
	x.apply(h)
}

func (x *recorder) call(k kind, tid, depth int, name string, receiver uint64, class string) {
	declares, _, _ := strings.Cut(name, "::")
	if !strings.Contains(name, "::") {
		declares = ""
	}
	x.feed(event{kind: k, tid: tid, depth: depth, name: name, class: declares, receiver: receiver, hasReceiver: receiver != 0, receiverClass: class})
}

// expect compares the rows emitted since the last call.
func (x *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(x.lines, want) {
		t.Errorf("recorder\n\t%s\nwant\n\t%s", strings.Join(x.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	x.lines = nil
}

// TestThreads: threads have distinct identities though numbers are reused, and
// the last one ends the process.
func TestThreads(t *testing.T) {
	x := newRecorder(false)
	ticks := func(n int64) int64 { return n * clockTick }
	x.start(1, 1, "main", 5, nil)
	x.expect(t, "thread CREATE 1#5 name=main")
	x.feed(event{kind: started, tid: 1, name: "main", started: ticks(5)}) // the inventory had it
	x.feed(event{kind: started, tid: 2, name: "main", parent: 1, started: ticks(8)})
	x.feed(event{kind: renamed, tid: 2, name: "worker"})
	x.feed(event{kind: renamed, tid: 2, name: "worker"})
	x.expect(t, "thread CREATE 2#8 name=main parent=1#5 on=1#5", "thread RENAME 2#8 name=worker on=2#8")
	x.feed(event{kind: ended, tid: 2})
	x.feed(event{kind: ended, tid: 2})
	x.feed(event{kind: started, tid: 2, name: "again", parent: 1, started: ticks(9)})
	x.expect(t, "thread RECLAIM 2#8 name=worker on=2#8", "thread CREATE 2#9 name=again parent=1#5 on=1#5")
	x.map_(x.programs[1], nil, []moduleTypes{{"m", []elf.Class{{Name: "A"}}}})
	x.call(entered, 2, 0, "A::A", 16, "")
	x.lines = nil
	x.feed(event{kind: executed, tid: 1})
	x.expect(t, "invocation LEAVE 2#9/1 name=A::A type=A on=2#9", "object RECLAIM 1:0x10#1 type=A on=2#9", "thread RECLAIM 2#9 name=again on=2#9",
		"type RECLAIM A name=A on=1#5")
	x.feed(event{kind: ended, tid: 1})
	x.expect(t, "thread RECLAIM 1#5 name=main on=1#5")
	if len(x.programs) != 0 || len(x.types) != 0 {
		t.Errorf("%d programs, %d types are left", len(x.programs), len(x.types))
	}
}

// TestObjects: the first constructor called on an object creates it and the
// last destructor ends it; another object may have its address later.
func TestObjects(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	x.call(entered, 1, 0, "main", 0, "")
	x.call(entered, 1, 1, "B::B", 16, "")
	x.call(entered, 1, 2, "A::A", 16, "") // its base
	x.call(left, 1, 2, "A::A", 0, "")
	x.call(left, 1, 1, "B::B", 0, "")
	x.call(entered, 1, 1, "B::~B", 16, "")
	x.call(entered, 1, 2, "A::~A", 16, "")
	x.call(left, 1, 2, "", 0, "")
	x.call(left, 1, 1, "", 0, "")
	x.call(entered, 1, 1, "A::A", 16, "")
	x.expect(t,
		"invocation ENTER 1#5/1 name=main on=1#5",
		"object CREATE 1:0x10#1 type=B on=1#5",
		"invocation ENTER 1#5/2 name=B::B type=B parent=1#5/1 other=1:0x10#1 on=1#5",
		"invocation ENTER 1#5/3 name=A::A type=A parent=1#5/2 other=1:0x10#1 on=1#5",
		"invocation LEAVE 1#5/3 name=A::A type=A on=1#5",
		"invocation LEAVE 1#5/2 name=B::B type=B on=1#5",
		"invocation ENTER 1#5/4 name=B::~B type=B parent=1#5/1 other=1:0x10#1 on=1#5",
		"invocation ENTER 1#5/5 name=A::~A type=A parent=1#5/4 other=1:0x10#1 on=1#5",
		"invocation LEAVE 1#5/5 name=A::~A type=A on=1#5",
		"invocation LEAVE 1#5/4 name=B::~B type=B on=1#5",
		"object RECLAIM 1:0x10#1 type=B on=1#5",
		"object CREATE 1:0x10#2 type=A on=1#5",
		"invocation ENTER 1#5/6 name=A::A type=A parent=1#5/1 other=1:0x10#2 on=1#5")
	x.call(unwound, 1, 1, "", 0, "") // the constructor has thrown
	x.expect(t, "invocation LEAVE 1#5/6 name=A::A type=A on=1#5", "object RECLAIM 1:0x10#2 type=A on=1#5")

	// An object whose construction was not seen exists from its first call on,
	// if its class is known.
	x.call(entered, 1, 1, "A::f", 32, "B")
	x.call(left, 1, 1, "", 0, "")
	x.call(entered, 1, 1, "A::g", 48, "")
	x.expect(t,
		"object CREATE 1:0x20#3 type=B on=1#5",
		"invocation ENTER 1#5/7 name=A::f type=A parent=1#5/1 other=1:0x20#3 on=1#5",
		"invocation LEAVE 1#5/7 name=A::f type=A on=1#5",
		"invocation ENTER 1#5/8 name=A::g type=A parent=1#5/1 on=1#5")

	// The end of an object without destructor is known when another has its
	// address.
	x.call(left, 1, 1, "", 0, "")
	x.call(entered, 1, 1, "A::A", 32, "")
	x.expect(t, "invocation LEAVE 1#5/8 name=A::g type=A on=1#5", "object RECLAIM 1:0x20#3 type=B on=1#5", "object CREATE 1:0x20#4 type=A on=1#5",
		"invocation ENTER 1#5/9 name=A::A type=A parent=1#5/1 other=1:0x20#4 on=1#5")
}

// TestFreedMemoryEndsItsObject: free ends an object that was not destroyed.
func TestFreedMemoryEndsItsObject(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.call(entered, 1, 0, "A::A", 16, "")
	x.call(left, 1, 0, "", 0, "")
	x.lines = nil
	x.feed(event{kind: freed, tid: 1, arg0: 32})
	x.feed(event{kind: freed, tid: 1, arg0: 16})
	x.feed(event{kind: freed, tid: 1, arg0: 16})
	x.expect(t, "object RECLAIM 1:0x10#1 type=A on=1#5")
}

// TestMissedEventsEndObjectsAsUnknown: where events of a thread are missing,
// its calls and the objects end as UNKNOWN, and open calls end unseen.
func TestMissedEventsEndObjectsAsUnknown(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.call(entered, 1, 0, "A::A", 16, "")
	x.call(entered, 1, 1, "f", 0, "")
	x.lines = nil
	x.feed(event{kind: missed, tid: 1, depth: 2})
	x.call(entered, 1, 2, "g", 0, "")
	x.call(left, 1, 2, "g", 0, "")
	x.call(left, 1, 1, "f", 0, "")
	x.call(left, 1, 0, "A::A", 0, "")
	x.call(entered, 1, 0, "h", 0, "")
	x.expect(t, "invocation UNKNOWN 1#5/2 name=f on=1#5", "invocation UNKNOWN 1#5/1 name=A::A type=A on=1#5", "object UNKNOWN 1:0x10#1 type=A on=1#5",
		"invocation ENTER 1#5/3 name=g on=1#5", "invocation LEAVE 1#5/3 name=g on=1#5", "invocation ENTER 1#5/4 name=h on=1#5")
	x.endDoubtful()
	x.resend()
	x.expect(t, "invocation UNKNOWN 1#5/4 name=h on=1#5", "thread CREATE 1#5 name=main")
}

// TestTypes: types are created before any is loaded, so that they may refer to
// each other; a type lives as long as some module has it.
func TestTypes(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.lines = nil
	exe := moduleTypes{"exe", []elf.Class{{Name: "A"}, {Name: "B", Bases: []string{"A", "C", "D"}}}}
	lib := moduleTypes{"lib", []elf.Class{{Name: "C", Bases: []string{"B"}}, {Name: "A"}}}
	x.feed(event{kind: mapped, tid: 1, modules: []moduleTypes{exe, lib}})
	x.expect(t, "type CREATE A name=A on=1#5", "type CREATE B name=B on=1#5", "type CREATE C name=C on=1#5",
		"type LOAD A name=A on=1#5", "type LOAD B name=B parent=A other=C on=1#5", "type LOAD C name=C parent=B on=1#5")
	x.feed(event{kind: mapped, tid: 1, modules: []moduleTypes{exe}})
	x.expect(t, "type RECLAIM C name=C on=1#5")
	x.feed(event{kind: mapped, tid: 1, modules: []moduleTypes{exe, lib}})
	x.expect(t, "type CREATE C#2 name=C on=1#5", "type LOAD C#2 name=C parent=B on=1#5")
}

func (x *recorder) locks(k kind, tid int, name string, address uint64, also uint64, result int32) {
	x.feed(event{kind: k, tid: tid, name: name, arg0: address, arg1: also, result: result})
}

// TestLocks: a thread waits for what another holds; condition waits release
// their mutex.
func TestLocks(t *testing.T) {
	x := newRecorder(true)
	x.start(1, 1, "a", 7, nil)
	x.start(1, 2, "b", 7, nil)
	x.expect(t)
	lock, unlock := "pthread_mutex_lock", "pthread_mutex_unlock"
	x.locks(locking, 1, lock, 16, 0, 0)
	x.locks(locked, 1, lock, 0, 0, 0)
	x.locks(locking, 2, lock, 16, 0, 0)
	x.expect(t, "ACQUIRE 1:0x10 name=mutex on=1#7", "BEGIN_WAIT 1:0x10 name=mutex other=1#7 on=2#7")
	x.locks(locking, 1, unlock, 16, 0, 0)
	x.locks(locked, 2, lock, 0, 0, 0)
	x.expect(t, "RELEASE 1:0x10 name=mutex on=1#7", "END_WAIT 1:0x10 name=mutex on=2#7", "ACQUIRE 1:0x10 name=mutex on=2#7")

	// A request before the other's return was seen waits from then on.
	x.locks(locking, 1, lock, 32, 0, 0)
	x.locks(locking, 2, lock, 32, 0, 0)
	x.expect(t)
	x.locks(locked, 1, lock, 0, 0, 0)
	x.expect(t, "ACQUIRE 1:0x20 name=mutex on=1#7", "BEGIN_WAIT 1:0x20 name=mutex other=1#7 on=2#7")
	x.locks(locking, 1, unlock, 32, 0, 0)
	x.locks(locked, 2, lock, 0, 0, 110) // it gave up
	x.expect(t, "RELEASE 1:0x20 name=mutex on=1#7", "END_WAIT 1:0x20 name=mutex on=2#7")

	// A condition wait releases the mutex and acquires it again.
	x.locks(locking, 2, "pthread_cond_wait", 64, 16, 0)
	x.expect(t, "RELEASE 1:0x10 name=mutex on=2#7", "BEGIN_WAIT 1:0x40 name=condition on=2#7")
	x.locks(locked, 2, "pthread_cond_wait", 0, 0, 0)
	x.expect(t, "END_WAIT 1:0x40 name=condition on=2#7", "ACQUIRE 1:0x10 name=mutex on=2#7")

	// Readers do not wait for each other, writers wait for readers.
	x.locks(locking, 1, "pthread_rwlock_rdlock", 128, 0, 0)
	x.locks(locked, 1, "pthread_rwlock_rdlock", 0, 0, 0)
	x.locks(locking, 2, "pthread_rwlock_rdlock", 128, 0, 0)
	x.locks(locked, 2, "pthread_rwlock_rdlock", 0, 0, 0)
	x.locks(locking, 2, "pthread_rwlock_unlock", 128, 0, 0)
	x.lines = nil
	x.locks(locking, 2, "pthread_rwlock_wrlock", 128, 0, 0)
	x.expect(t, "BEGIN_WAIT 1:0x80 name=rwlock other=1#7 on=2#7")
	x.feed(event{kind: ended, tid: 2})
	x.expect(t, "END_WAIT 1:0x80 name=rwlock on=2#7", "UNKNOWN 1:0x10 name=mutex on=2#7") // never released by it

	// A wait for a lock acquired before monitoring began is reported.
	x.locks(locking, 1, lock, 256, 0, 0)
	x.emitWaits(x.time + waitThreshold/2)
	x.expect(t)
	x.emitWaits(x.time + waitThreshold)
	x.expect(t, "BEGIN_WAIT 1:0x100 name=mutex on=1#7")

	x.feed(event{kind: ended, tid: 1})
	if len(x.programs) != 0 {
		t.Error("the process is left")
	}
}

// TestFork: a new process has its parent's types until it executes a program.
func TestFork(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "sh", 5, nil)
	x.map_(x.programs[1], nil, []moduleTypes{{"sh", []elf.Class{{Name: "A"}}}})
	x.lines = nil
	x.feed(event{kind: started, pid: 2, tid: 2, name: "sh", parent: 1, started: 8 * clockTick, process: "sh", exe: "/bin/sh"})
	x.feed(event{kind: executed, pid: 2, tid: 2, name: "ls", started: 8 * clockTick, process: "ls", exe: "/bin/ls"})
	x.feed(event{kind: mapped, pid: 2, tid: 2, modules: []moduleTypes{{"ls", []elf.Class{{Name: "B"}}}}})
	if p := x.programs[2]; p.name != "ls" || p.exe != "/bin/ls" {
		t.Errorf("%s, %s", p.name, p.exe)
	}
	x.feed(event{kind: ended, pid: 1, tid: 1})
	// A process first seen at its exec was created before; the event has the
	// time.
	x.feed(event{kind: executed, pid: 3, tid: 3, name: "cat", started: 9 * clockTick, process: "cat", exe: "/bin/cat"})
	x.expect(t, "thread CREATE 2#8 name=sh parent=1#5 on=1#5", "type CREATE B name=B on=2#8", "type LOAD B name=B on=2#8",
		"type RECLAIM A name=A on=1#5", "thread RECLAIM 1#5 name=sh on=1#5", "thread CREATE 3#9 name=cat")
}

// TestRetellGivesReferencesFirst: after a miss all live entities are reported,
// referred ones first.
func TestRetellGivesReferencesFirst(t *testing.T) {
	x := newRecorder(false)
	x.start(1, 1, "main", 5, nil)
	x.map_(x.programs[1], nil, []moduleTypes{{"m", []elf.Class{{Name: "A"}, {Name: "B", Bases: []string{"A"}}}}})
	x.call(entered, 1, 0, "main", 0, "")
	x.call(entered, 1, 1, "A::A", 16, "")
	x.lines = nil
	x.resend()
	x.expect(t, "thread CREATE 1#5 name=main", "type CREATE A name=A", "type CREATE B name=B", "type LOAD A name=A", "type LOAD B name=B parent=A",
		"object CREATE 1:0x10#1 type=A", "invocation ENTER 1#5/1 name=main on=1#5", "invocation ENTER 1#5/2 name=A::A type=A parent=1#5/1 other=1:0x10#1 on=1#5")

	x = newRecorder(true)
	x.start(1, 1, "a", 7, nil)
	x.start(1, 2, "b", 7, nil)
	x.locks(locking, 1, "pthread_mutex_lock", 16, 0, 0)
	x.locks(locked, 1, "pthread_mutex_lock", 0, 0, 0)
	x.locks(locking, 2, "pthread_mutex_lock", 16, 0, 0)
	x.lines = nil
	x.resend()
	x.expect(t, "ACQUIRE 1:0x10 name=mutex on=1#7", "BEGIN_WAIT 1:0x10 name=mutex on=2#7")
}

// TestMerge: events of the same time keep their order of arrival.
func TestMerge(t *testing.T) {
	var m merge
	for i, at := range []int64{30, 10, 20, 10, 40} {
		m.add(event{time: at, tid: i})
	}
	var got []int
	for {
		h, ok := m.next(40)
		if !ok {
			break
		}
		got = append(got, h.tid)
	}
	if !slices.Equal(got, []int{1, 3, 2, 0}) {
		t.Errorf("%v", got)
	}
}

// TestMergeOrders compares with sorting.
func TestMergeOrders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var m merge
	var all, got []int64
	var until int64
	for range 200 {
		for range rnd.IntN(50) {
			at := until + rnd.Int64N(1000)
			m.add(event{time: at})
			all = append(all, at)
		}
		until += rnd.Int64N(500)
		for {
			h, ok := m.next(until)
			if !ok {
				break
			}
			got = append(got, h.time)
		}
	}
	for h, ok := m.next(1 << 60); ok; h, ok = m.next(1 << 60) {
		got = append(got, h.time)
	}
	slices.Sort(all)
	if !slices.Equal(got, all) {
		t.Errorf("%d of %d, sorted: %t", len(got), len(all), slices.IsSorted(got))
	}
}

// TestStructors: functions are classified by their names.
func TestStructors(t *testing.T) {
	for _, c := range []struct {
		name, class, mangled string
		want                 structor
	}{
		{"A::A", "A", "_ZN1AC1Ev", constructor},
		{"A::A", "A", "_ZN1AC2Ei", constructor},
		{"A::~A", "A", "_ZN1AD1Ev", destructor},
		{"A::f", "A", "_ZN1A1fEv", method},
		{"ns::A<int>::A", "ns::A<int>", "_ZN2ns1AIiEC2Ev", constructor},
		{"ns::A<ns::B<int>>::~A", "ns::A<ns::B<int>>", "_ZN2ns1AINS_1BIiEEED0Ev", destructor},
		{"foo::foo", "foo", "_ZN3foo3fooEv", method},
		{"main", "", "main", method},
	} {
		if got := structorOf(c.name, c.class, c.mangled); got != c.want {
			t.Errorf("%s is %v, want %v", c.mangled, got, c.want)
		}
	}
}
