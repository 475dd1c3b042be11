package consistency

import (
	"fmt"
	"testing"
)

// TestBounded checks that the memory does not grow with the length of the run.
func TestBounded(t *testing.T) {
	k := NewKeeper(func(Report) {}, 0)
	for i := range 100_000 {
		id := fmt.Sprint(i)
		for _, e := range []Event{
			{Category: Thread, Kind: Create, Entity: id},
			{Category: Object, Kind: Create, Entity: "same", Thread: id},
			{Category: Invocation, Kind: Enter, Entity: id, Thread: id, Other: "same"},
			{Kind: Acquire, Entity: "same", Thread: id},
			{Category: Object, Kind: Reclaim, Entity: "same", Thread: id},
			{Category: Thread, Kind: Create, Entity: id + "'", Thread: id, Parent: id},
			{Category: Thread, Kind: Reclaim, Entity: id, Thread: id},
			{Category: Thread, Kind: Reclaim, Entity: id + "'", Thread: id + "'"},
		} {
			k.Push(e, i%3 == 0, "")
		}
	}
	w := k.world
	if k.Live() != 0 || len(w.locks)+len(w.holds)+len(w.tops)+len(w.types)+len(w.live[Object])+len(w.live[Thread])+len(w.live[Invocation]) != 0 {
		t.Errorf("%d live, %+v", k.Live(), w)
	}
}

// TestEndedObjectIsNotKeptByWhatItMade checks that an ended object is not kept alive by the
// objects it created.
func TestEndedObjectIsNotKeptByWhatItMade(t *testing.T) {
	k := NewKeeper(func(Report) {}, 0)
	before := "0"
	k.Push(Event{Category: Thread, Kind: Create, Entity: before}, false, "")
	first := k.world.find(Thread, before)
	for i := range 1000 {
		id := fmt.Sprint(i + 1)
		k.Push(Event{Category: Thread, Kind: Create, Entity: id, Parent: before, Thread: before}, false, "")
		k.Push(Event{Category: Thread, Kind: Reclaim, Entity: before, Thread: before}, false, "")
		before = id
	}
	if k.Live() != 1 || !first.ended || first.create.Event != (Event{}) {
		t.Errorf("%d live, the first is %+v", k.Live(), first)
	}
}
