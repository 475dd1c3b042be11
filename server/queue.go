package server

import (
	"math"
	"sync"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// item is one thing that happened at a leaf.
type item struct {
	leaf    int
	batch   *batch.Batch
	partial *plan.Partial    // of batch: it has partial rows of this stage
	signal  operators.Signal // where batch is nil and end is false
	end     bool
	err     error
}

// mark reports whether the item is a watermark.
func (it *item) mark() bool {
	return it.batch == nil && !it.end && it.signal.Kind == operators.Watermark
}

// gap reports whether the item says that something is missing.
func (it *item) gap() bool {
	return it.batch == nil && !it.end && it.signal.Kind == operators.Gap
}

// divides reports whether what comes before the item is to be told from what comes
// behind it: reporting begins or ends there.
func (it *item) divides() bool {
	return it.batch == nil && !it.end && (it.signal.Kind == operators.Suspend || it.signal.Kind == operators.Resume)
}

// queue holds what sources gave until the runner takes it. It is bounded, however
// long that takes: batches of rows by a limit, batches of partial rows by the same
// one after those of one group were merged; a watermark replaces the one before it,
// if nothing came between them from its leaf; and of several gaps between two
// batches there is one.
type queue struct {
	mu       sync.Mutex
	items    []item
	head     int
	rows     int           // batches of rows queued
	partials int           // batches of partial rows queued
	mergeAt  int           // so many of them are worth merging
	before   int           // so many items from head on stay as many: see round
	marks    map[int]int   // by leaf: where in items its last one is, if that is a watermark
	gaps     map[int]bool  // leaves that have a Gap queued with no rows behind it
	limit    int           // of batches
	ready    chan struct{} // has a token when items were added
	room     *sync.Cond    // signalled when a batch was taken
	closed   bool          // the runner takes nothing any more
}

// leastMerged is how many batches of partial rows are merged at a time, at least.
const leastMerged = 64

func newQueue(limit int) *queue {
	q := &queue{limit: limit, marks: map[int]int{}, gaps: map[int]bool{}, ready: make(chan struct{}, 1)}
	q.mergeAt = min(leastMerged, limit)
	q.room = sync.NewCond(&q.mu)
	return q
}

// push adds an item. A batch of rows that finds the queue full waits if wait is
// set, and otherwise is refused: the caller counts it as lost. So are partial
// rows, where merging has not made room for them.
func (q *queue) push(it item, wait bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case it.batch != nil && q.closed:
		return false
	case it.partial != nil:
		if q.partials >= q.mergeAt {
			q.merge()
		}
		if q.partials >= q.limit {
			return false
		}
		q.partials++
	case it.batch != nil:
		for q.rows >= q.limit && wait && !q.closed {
			q.room.Wait()
		}
		if q.rows >= q.limit || q.closed {
			return false
		}
		q.rows++
	case it.mark():
		if at, ok := q.marks[it.leaf]; ok {
			q.items[at].signal = it.signal
			return true
		}
	case it.gap():
		if q.closed || q.gaps[it.leaf] {
			return true
		}
	}
	q.add(it)
	q.token()
	return true
}

func (q *queue) token() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// round is how many items there are. So many calls of pop take all of them,
// whatever is added meanwhile: nothing is merged in front of them.
func (q *queue) round() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.before = len(q.items) - q.head
	return q.before
}

// rouse puts the token back if there are items.
func (q *queue) rouse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.items) {
		q.token()
	}
}

func (q *queue) add(it item) {
	delete(q.marks, it.leaf)
	switch {
	case it.mark():
		q.marks[it.leaf] = len(q.items)
	case it.gap():
		q.gaps[it.leaf] = true
	case it.batch != nil:
		delete(q.gaps, it.leaf)
	}
	q.items = append(q.items, it)
}

// merge makes one of all partial rows of one group, but for those of a round. They
// take the place of the first ones: partial rows may always come earlier, unless
// reporting was suspended or resumed between them.
func (q *queue) merge() {
	var all map[*plan.Partial][]*batch.Batch
	old := q.items[q.head:]
	q.items, q.head, q.partials = make([]item, 0, len(old)), 0, 0
	clear(q.marks)
	clear(q.gaps)
	for i, it := range old {
		if i < q.before {
			if q.add(it); it.partial != nil {
				q.partials++
			}
			continue
		}
		if i == q.before || old[i-1].divides() {
			all = partialsOf(old[i:])
		}
		if it.partial != nil {
			for _, b := range agg.MergePartials(it.partial, all[it.partial]) {
				q.add(item{leaf: it.leaf, batch: b, partial: it.partial})
				q.partials++
			}
			all[it.partial] = nil
			continue
		}
		if at, ok := q.marks[it.leaf]; ok && it.mark() {
			q.items[at].signal = it.signal
			continue
		}
		q.add(it)
	}
	// Not again before there is twice as much: where nothing becomes one, merging
	// must not be all that is done. Beyond half the limit it is not tried.
	q.mergeAt = min(max(leastMerged, 2*q.partials), q.limit)
	if q.partials > q.limit/2 {
		q.mergeAt = math.MaxInt
	}
}

// partialsOf are the batches of partial rows of items up to one that divides.
func partialsOf(items []item) map[*plan.Partial][]*batch.Batch {
	all := map[*plan.Partial][]*batch.Batch{}
	for _, it := range items {
		if it.divides() {
			break
		}
		if it.partial != nil {
			all[it.partial] = append(all[it.partial], it.batch)
		}
	}
	return all
}

// pop takes the next item, if there is one.
func (q *queue) pop() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		return item{}, false
	}
	it := q.items[q.head]
	if at, ok := q.marks[it.leaf]; ok && at == q.head {
		delete(q.marks, it.leaf)
	}
	if it.gap() {
		delete(q.gaps, it.leaf)
	}
	q.items[q.head] = item{}
	q.head++
	q.before = max(0, q.before-1)
	if q.head > 1024 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		for leaf := range q.marks {
			q.marks[leaf] -= q.head
		}
		q.items, q.head = q.items[:n], 0
	}
	switch {
	case it.partial != nil:
		if q.partials--; q.partials <= q.limit/2 {
			q.mergeAt = min(q.mergeAt, max(leastMerged, 2*q.partials), q.limit)
		}
	case it.batch != nil:
		q.rows--
		q.room.Signal()
	}
	return it, true
}

// over reports whether the queue is closed.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// close lets everybody go who waits for room and drops what is queued.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, it := range q.items[q.head:] {
		if it.batch != nil {
			it.batch.Release()
		}
	}
	q.items, q.head, q.rows, q.partials, q.before = nil, 0, 0, 0, 0
	clear(q.marks)
	clear(q.gaps)
	q.room.Broadcast()
}
