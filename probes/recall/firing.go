package recall

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"endoscope/probes/bpf"
)

// Event is a recorded event.
type Event = bpf.FunctionRecorded

// Summary says what a firing recalled.
type Summary struct {
	At       int64  // time of the tuple that fired, ns since the epoch
	Since    int64  // from when on no event is missing, likewise; 0: nothing was recorded
	Complete bool   // Since is not after the beginning of the time that was asked for
	Events   int    // number of events recalled, before conditions that are tested later
	Reason   string // why nothing could be recalled, or what is missing; ""
}

// Firing is a tuple of the trigger, and what its sequence did before.
type Firing struct {
	Number          uint64
	PID, TID        uint32
	Process, Thread string
	Events          []Event // oldest first; valid until the next firing is read
	Summary
}

// Values of the field ring of a firing without one (recall.h).
const (
	noRing  = ^uint32(0)
	noSpare = ^uint32(1)
)

// Wait waits until there is a firing, Wake is called, or d has passed.
func (s *Set) Wait(d time.Duration) { s.firings.Wait(d) }

// Wake ends the current or the next Wait.
func (s *Set) Wake() { s.firings.Wake() }

// Read calls f for each firing that is not read yet.
func (s *Set) Read(f func(*Firing)) {
	s.firings.DrainAll(func(record []byte) {
		if len(record) < int(unsafe.Sizeof(bpf.FunctionFiring{})) {
			return
		}
		f(s.firing((*bpf.FunctionFiring)(unsafe.Pointer(unsafe.SliceData(record)))))
	})
}

// firing reads the ring of a firing and frees it.
func (s *Set) firing(k *bpf.FunctionFiring) *Firing {
	f := &Firing{Number: k.Number, PID: k.Pid, TID: k.Tid, Process: text(&k.Process), Thread: text(&k.Thread)}
	f.At = int64(k.Time) + s.offset
	defer func() { s.missing(&f.Summary) }()
	switch k.Ring {
	case noRing:
		f.Reason = "nothing was recorded of this thread"
		return f
	case noSpare:
		f.Reason = "no ring was free: earlier firings were not read yet"
		return f
	}
	from := max(int64(k.Time)-s.last, 0)
	events, since, before, torn := s.read(int(k.Ring), k.Claim)
	if torn > 0 {
		f.Reason = "events were overwritten while they were read"
	}
	if old, ok := s.kept.take(before); ok && torn == 0 && since == old.until {
		events, since = append(old.events, events...), old.since
	}
	first := sort.Search(len(events), func(i int) bool { return int64(events[i].Time) >= from })
	events, since = events[first:], max(since, from)
	// Some events have the time of what shows them, and later events the time before.
	f.Events, f.Since, f.Complete = events, since+s.offset, since <= from
	f.Summary.Events = len(events)
	if n := len(events) - RingEvents; n > 0 {
		events = events[n:]
		since = max(since, int64(events[0].Time))
	}
	s.kept.put(k.Claim, past{events: slices.Clone(events), since: since, until: int64(k.Time)})
	return f
}

// mostNamed is how many functions are named that are left out.
const mostNamed = 5

// LeaveOut says that calls of these functions are not recorded from a time on, since they cost
// too much.
func (s *Set) LeaveOut(functions []string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leftAt == 0 && len(functions) > 0 {
		s.leftAt = at
	}
	s.left = append(s.left, functions...)
}

// LeftOut names the functions that are left out; "": there are none. A nil set has none.
func (s *Set) LeftOut() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := strings.Join(s.left[:min(mostNamed, len(s.left))], ", ")
	if n := len(s.left) - mostNamed; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return names
}

// missing adds to a summary which functions were left out before.
func (s *Set) missing(to *Summary) {
	names := s.LeftOut()
	s.mu.Lock()
	defer s.mu.Unlock()
	if names == "" || s.leftAt > to.At {
		return
	}
	to.Complete = false
	if to.Reason != "" {
		to.Reason += "; "
	}
	to.Reason += "left out, since they cost too much: " + names
}

// read copies the events of a ring, and frees it. It returns when the time begins of which
// it has all events, the claim before, and how many places held other events.
func (s *Set) read(ring int, claim uint64) (events []Event, since int64, before uint64, torn int) {
	h, places := s.head(ring), s.ring(ring)
	first, next := h.First, h.Next
	since, before = int64(h.Since), h.Before
	if next-first > RingEvents {
		first = next - RingEvents
		since = 0 // the time of the first event below
		before = 0
	}
	events = make([]Event, 0, next-first)
	for n := first; n < next; n++ {
		e := places[n%RingEvents]
		if e.Lap != uint16(n/RingEvents) {
			torn++
			events = events[:0]
			since = 0
			continue
		}
		events = append(events, e)
	}
	if since == 0 && len(events) > 0 {
		since = int64(events[0].Time)
	}
	atomic.StoreUint64(&h.Last, never)
	atomic.StoreUint64(&h.Claim, 0)
	atomic.AddUint64(&s.pool().Used, ^uint64(0))
	return events, since, before, torn
}

// Conclude stores the summary of a firing until Summary asks for it.
func (s *Set) Conclude(f *Firing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.summaries[f.Number] = f.Summary
}

// Summary returns the summary of a firing, once.
func (s *Set) Summary(number uint64) Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.summaries[number]
	delete(s.summaries, number)
	return out
}

// text returns a name without trailing zeros.
func text(name *[16]int8) string {
	return strings.TrimRight(string((*[16]byte)(unsafe.Pointer(name))[:]), "\x00")
}
