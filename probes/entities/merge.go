package entities

// kind is what a happening is.
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
	locking    // a function of locks is called
	locked     // it has returned
	freed      // memory
	mapped     // modules are what they are then
	doubtful   // events were lost, nobody knows whose
	owned      // a Java monitor, by a thread
	unloaded   // a class of Java
	over       // a call returns that had begun before its probe was there
	suspending // calls may be overlooked from now on,
	resuming   // and no more; there says which are under way
)

// happening is what a part tells of.
type happening struct {
	time     int64
	kind     kind
	pid, tid int

	name  string // new, of a thread; function
	class string // that declares the function

	parent       int    // tid; started
	started      int64  // of the thread; 0: not known
	process, exe string // its process; "": not known

	depth         int
	frame         uint64 // 0: not known
	receiver      uint64
	hasReceiver   bool
	receiverClass string // "": not known

	arg0, arg1 uint64
	result     int32

	modules    []moduleTypes
	losses     map[string]uint64 // events, by cause
	there      *inventory        // behind a loss, and of resuming
	suspension suspension
}

// merge orders happenings by time, and keeps what came together as it came. They lie
// still in slots, of which a heap orders the numbers. While it is full, which is for
// the caller to ask, nothing should be added but what is needed to empty it.
type merge struct {
	slots []happening
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

// mostWaiting is how many happenings may wait for the slowest part, or for somebody
// who looks what there is: some 70 MB.
const mostWaiting = 1 << 18

// full reports whether nothing more should be taken in.
func (m *merge) full() bool { return len(m.heap) >= mostWaiting }

// fewSlots is how many slots are kept when none is in use.
const fewSlots = 1 << 12

// add takes one in.
func (m *merge) add(h happening) {
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
	for i := len(m.heap) - 1; i > 0; { // what comes last usually stays there
		up := (i - 1) / 2
		if !m.heap[i].before(&m.heap[up]) {
			break
		}
		m.heap[i], m.heap[up] = m.heap[up], m.heap[i]
		i = up
	}
}

// first is that which next will take out, or nil.
func (m *merge) first() *happening {
	if len(m.heap) == 0 {
		return nil
	}
	return &m.slots[m.heap[0].slot]
}

// next takes out the first that happened before t, if there is one.
func (m *merge) next(t int64) (h happening, ok bool) {
	if len(m.heap) == 0 || m.heap[0].time >= t {
		return h, false
	}
	slot := m.heap[0].slot
	h, m.slots[slot] = m.slots[slot], happening{}
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
		m.slots, m.free = m.slots[:0], m.free[:0] // what a burst took is used again from the start
		if cap(m.slots) > fewSlots {
			m.slots, m.free, m.heap = nil, nil, nil
		}
	}
	return h, true
}
