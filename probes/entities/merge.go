package entities

import "container/heap"

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
	missed   // events of the thread are missing before its next one
	locking  // a function of locks is called
	locked   // it has returned
	mapped   // modules are what they are then
	doubtful // events were lost, nobody knows whose
	retold   // somebody missed what was told
)

// happening is what a part tells of.
type happening struct {
	time     int64
	seq      uint64
	kind     kind
	pid, tid int

	name  string // new, of a thread; function
	class string // that declares the function

	parent       int    // tid; started
	started      int64  // of the thread; 0: not known
	process, exe string // its process; "": not known

	depth         int
	receiver      uint64
	hasReceiver   bool
	receiverClass string // "": not known

	arg0, arg1 uint64
	result     int32

	modules []moduleTypes
	cause   string // of a loss
	lost    uint64
}

// merge orders happenings by time, and keeps what came together as it came.
type merge struct {
	waiting queue
	seq     uint64
}

// add takes one in.
func (m *merge) add(h happening) {
	m.seq++
	h.seq = m.seq
	heap.Push(&m.waiting, h)
}

// next takes out the first that happened before t, if there is one.
func (m *merge) next(t int64) (h happening, ok bool) {
	if len(m.waiting) == 0 || m.waiting[0].time >= t {
		return h, false
	}
	return heap.Pop(&m.waiting).(happening), true
}

type queue []happening

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].time != q[j].time {
		return q[i].time < q[j].time
	}
	return q[i].seq < q[j].seq
}
func (q *queue) Push(x any) { *q = append(*q, x.(happening)) }
func (q *queue) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = happening{}
	*q = old[:len(old)-1]
	return h
}
