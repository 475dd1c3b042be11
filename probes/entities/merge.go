package entities

// kind is the kind of an event.
type kind uint8

const (
	started kind = iota // of threads
	ended
	renamed
	executed
	entered // of calls
	left
	unwound
	missed     // events of the thread are missing before its next one
	locking    // entry of a lock function
	locked     // return of a lock function
	freed      // memory
	mapped     // the modules of a process have changed
	doubtful   // events of unknown threads were lost
	owned      // a Java monitor is held by a thread
	unloaded   // a Java class is unloaded
	over       // return of a call that began before its probe was attached
	suspending // from now on calls may be suppressed
	resuming   // no longer; there has the open calls
)

// event is one event of a part.
type event struct {
	time     int64
	kind     kind
	pid, tid int

	name  string // new name of a thread; function
	class string // declaring class of the function

	parent       int    // tid of the creator; started
	started      int64  // creation time of the thread; 0: unknown
	process, exe string // of its process; "": unknown

	depth         int
	frame         uint64 // 0: unknown
	receiver      uint64
	hasReceiver   bool
	receiverClass string // "": unknown

	arg0, arg1 uint64
	result     int32

	modules    []moduleTypes
	losses     map[string]uint64 // lost events, by cause
	there      *inventory        // after a loss, and of resuming
	suspension suspension
}

// merge orders events by time, and by arrival at equal times. Events
// stay in slots; a heap orders their numbers. The caller checks full before it
// adds; when full, only what is needed to drain it may be added.
type merge struct {
	slots []event
	free  []uint32
	heap  []waiting
	seq   uint64
}

type waiting struct {
	time int64
	seq  uint64
	slot uint32
}

func (a *waiting) before(b *waiting) bool {
	return a.time < b.time || a.time == b.time && a.seq < b.seq
}

// maxWaiting limits the events that wait for the slowest part or for an
// inventory: about 70 MB.
const maxWaiting = 1 << 18

// full reports whether the limit is reached.
func (m *merge) full() bool { return len(m.heap) >= maxWaiting }

// minSlots is the number of slots kept when none is in use.
const minSlots = 1 << 12

// add inserts an event.
func (m *merge) add(h event) {
	m.seq++
	x := waiting{h.time, m.seq, uint32(len(m.slots))}
	if n := len(m.free); n > 0 {
		x.slot = m.free[n-1]
		m.free = m.free[:n-1]
		m.slots[x.slot] = h
	} else {
		m.slots = append(m.slots, h)
	}
	m.heap = append(m.heap, x)
	for i := len(m.heap) - 1; i > 0; { // the latest event usually stays last
		up := (i - 1) / 2
		if !m.heap[i].before(&m.heap[up]) {
			break
		}
		m.heap[i], m.heap[up] = m.heap[up], m.heap[i]
		i = up
	}
}

// first returns the event that next would remove, or nil.
func (m *merge) first() *event {
	if len(m.heap) == 0 {
		return nil
	}
	return &m.slots[m.heap[0].slot]
}

// next removes and returns the first event before t, if there is one.
func (m *merge) next(t int64) (h event, ok bool) {
	if len(m.heap) == 0 || m.heap[0].time >= t {
		return h, false
	}
	slot := m.heap[0].slot
	h, m.slots[slot] = m.slots[slot], event{}
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && m.heap[right].before(&m.heap[least]) {
			least = right
		}
		if !m.heap[least].before(&m.heap[i]) {
			break
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
	if m.free = append(m.free, slot); last == 0 {
		m.slots, m.free = m.slots[:0], m.free[:0] // reuse the memory of a burst from the start
		if cap(m.slots) > minSlots {
			m.slots, m.free, m.heap = nil, nil, nil
		}
	}
	return h, true
}
