package recall

import (
	"slices"
	"testing"
	"unsafe"

	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
)

// write writes an event to a ring as the programs do, at the time of its number.
func (s *Set) write(ring int, events uint64) {
	h := s.head(ring)
	for ; events > 0; events-- {
		n := h.Next
		s.ring(ring)[n%RingEvents] = Event{Time: n, Tid: uint32(ring), Lap: uint16(n / RingEvents)}
		h.Next++
	}
}

// claimed gives a ring to a sequence that had another claim before.
func (s *Set) claimed(ring int, claim, before uint64) {
	h := s.head(ring)
	h.Claim, h.Before = claim, before
	h.Next++
	h.First, h.Since = h.Next, h.Next
	s.pool().Used++
}

func newSet(t *testing.T, last int64) *Set {
	testenv.NeedUprobes(t)
	s, err := New(LeastBytes, last, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// times are the first and the last time of events without a gap in between.
func times(t *testing.T, events []Event) (first, last uint64) {
	t.Helper()
	for i := range events {
		if i > 0 && events[i].Time != events[i-1].Time+1 {
			t.Fatalf("event %d follows %d", events[i].Time, events[i-1].Time)
		}
	}
	if len(events) == 0 {
		return 0, 0
	}
	return events[0].Time, events[len(events)-1].Time
}

// A ring that was not full has everything since its claim, one that was full the last events.
func TestFiringReadsTheLastEvents(t *testing.T) {
	s := newSet(t, 1<<40)
	for _, c := range []struct{ events, first uint64 }{{10, 1}, {RingEvents, 1}, {RingEvents + 1, 2}, {3*RingEvents + 7, 2*RingEvents + 8}} {
		*s.head(1) = bpf.FunctionRing{}
		s.claimed(1, 1, 0)
		s.write(1, c.events)
		f := s.firing(&bpf.FunctionFiring{Ring: 1, Claim: 1, Time: c.events + 1})
		first, last := times(t, f.Events)
		if first != c.first || last != c.events || f.Since != int64(c.first) || f.Complete || f.Reason != "" {
			t.Errorf("%d events: from %d to %d, %+v", c.events, first, last, f.Summary)
		}
		if h := s.head(1); h.Claim != 0 || h.Last != never || s.pool().Used != 0 {
			t.Errorf("the ring is not free: %+v, %d used", h, s.pool().Used)
		}
	}
}

// A firing looks back to the rings that earlier firings of its sequence recalled, as far as
// LAST goes and nothing is missing in between.
func TestFiringLooksBackToEarlierRings(t *testing.T) {
	s := newSet(t, 150)
	s.claimed(1, 1, 0)
	s.write(1, 100) // 1 to 100
	s.firing(&bpf.FunctionFiring{Ring: 1, Claim: 1, Time: 101})
	h := s.head(2)
	h.Next = 100
	s.claimed(2, 2, 1) // since 101
	s.write(2, 100)
	f := s.firing(&bpf.FunctionFiring{Ring: 2, Claim: 2, Time: 200})
	if len(f.Events) != 151 || f.Events[0].Time != 50 || f.Since != 50 || !f.Complete {
		t.Errorf("%d events, %+v", len(f.Events), f.Summary)
	}
	// The ring was full: what is kept of before does not join.
	h.Next = 200
	s.claimed(2, 3, 2)
	s.write(2, RingEvents+100)
	f = s.firing(&bpf.FunctionFiring{Ring: 2, Claim: 3, Time: 201 + RingEvents + 99})
	if first, _ := times(t, f.Events); !f.Complete || first != uint64(201+RingEvents+99-150) {
		t.Errorf("%d events from %d, %+v", len(f.Events), first, f.Summary)
	}
}

// Events that belong to another lap are noticed, and what is before them is not reported.
func TestFiringNoticesOverwrittenEvents(t *testing.T) {
	s := newSet(t, 1<<40)
	s.claimed(1, 1, 0)
	s.write(1, 100)
	s.ring(1)[50].Lap = 9
	f := s.firing(&bpf.FunctionFiring{Ring: 1, Claim: 1, Time: 101})
	if first, last := times(t, f.Events); first != 51 || last != 100 || f.Since != 51 || f.Reason == "" {
		t.Errorf("from %d to %d, %+v", first, last, f.Summary)
	}
}

// Firings without a ring say why.
func TestFiringWithoutRing(t *testing.T) {
	s := newSet(t, 1)
	for _, ring := range []uint32{noRing, noSpare} {
		if f := s.firing(&bpf.FunctionFiring{Ring: ring, Time: 7}); f.Reason == "" || f.At != 7 || f.Complete {
			t.Errorf("%+v", f)
		}
	}
}

// The history keeps as many events as there is room for, the newest claims.
func TestHistoryIsBounded(t *testing.T) {
	h := history{room: 100}
	for claim := uint64(1); claim <= 50; claim++ {
		h.put(claim, past{events: make([]Event, 9)})
	}
	if len(h.byClaim) != 10 || h.events != 100 {
		t.Errorf("%d claims, %d events", len(h.byClaim), h.events)
	}
	for claim := uint64(41); claim <= 50; claim++ {
		if p, ok := h.take(claim); !ok || len(p.events) != 9 {
			t.Errorf("claim %d is gone", claim)
		}
	}
	if _, ok := h.take(50); ok || h.events != 0 {
		t.Errorf("%d events remain", h.events)
	}
	for claim := uint64(1); claim < 10000; claim++ {
		h.put(claim, past{})
		h.take(claim)
	}
	if n := len(h.order); n > 100 {
		t.Errorf("%d claims in the order", n)
	}
}

// The layouts agree with those of the ring buffer, of which a recorded event is a beginning.
func TestRecordedEventBeginsLikeAnEvent(t *testing.T) {
	var r bpf.FunctionRecorded
	var e bpf.FunctionEvent
	got := []uintptr{unsafe.Offsetof(r.Time), unsafe.Offsetof(r.Function), unsafe.Offsetof(r.Pid), unsafe.Offsetof(r.Tid), unsafe.Offsetof(r.Depth)}
	want := []uintptr{unsafe.Offsetof(e.Time), unsafe.Offsetof(e.Function), unsafe.Offsetof(e.Pid), unsafe.Offsetof(e.Tid), unsafe.Offsetof(e.Depth)}
	if !slices.Equal(got, want) || unsafe.Sizeof(r) < unsafe.Sizeof(e) {
		t.Errorf("offsets %v, want %v", got, want)
	}
}
