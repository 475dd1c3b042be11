package flow

import (
	"math"
	"sync"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// Item is one thing that happened at a leaf.
type Item struct {
	Leaf    int
	Batch   *batch.Batch
	Partial *plan.Partial    // of batch: it has partial rows of this stage
	Signal  operators.Signal // where batch is nil and end is false
	End     bool
	Err     error
}

// mark reports whether the item is a watermark.
func (it *Item) mark() bool {
	return it.Batch == nil && !it.End && it.Signal.Kind == operators.Watermark
}

// gap reports whether the item says that something is missing.
func (it *Item) gap() bool {
	return it.Batch == nil && !it.End && it.Signal.Kind == operators.Gap
}

// divides reports whether what comes before the item is to be told from what comes
// behind it: reporting begins or ends there.
func (it *Item) divides() bool {
	return it.Batch == nil && !it.End && (it.Signal.Kind == operators.Suspend || it.Signal.Kind == operators.Resume)
}

// Queue holds what sources gave until the runner takes it. It is bounded, however
// long that takes: batches of rows by a limit, batches of partial rows by the same
// one after those of one group were merged; a watermark replaces the one before it,
// if nothing came between them from its leaf; and of several gaps between two
// batches there is one.
type Queue struct {
	mu       sync.Mutex
	items    []Item
	head     int
	rows     int           // batches of rows queued
	partials int           // batches of partial rows queued
	mergeAt  int           // so many of them are worth merging
	before   int           // so many items from head on stay as many: see round
	marks    map[int]int   // by leaf: where in items its last one is, if that is a watermark
	gaps     map[int]bool  // leaves that have a Gap queued with no rows behind it
	Limit    int           // of batches
	Ready    chan struct{} // has a token when items were added
	room     *sync.Cond    // signalled when a batch was taken
	closed   bool          // the runner takes nothing any more
}

// leastMerged is how many batches of partial rows are merged at a time, at least.
const leastMerged = 64

func NewQueue(limit int) *Queue {
	q := &Queue{Limit: limit, marks: map[int]int{}, gaps: map[int]bool{}, Ready: make(chan struct{}, 1)}
	q.mergeAt = min(leastMerged, limit)
	q.room = sync.NewCond(&q.mu)
	return q
}

// Push adds an item. A batch of rows that finds the queue full waits if wait is
// set, and otherwise is refused: the caller counts it as lost. So are partial
// rows, where merging has not made room for them.
func (q *Queue) Push(it Item, wait bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case it.Batch != nil && q.closed:
		return false
	case it.Partial != nil:
		if q.partials >= q.mergeAt {
			q.merge()
		}
		if q.partials >= q.Limit {
			return false
		}
		q.partials++
	case it.Batch != nil:
		for q.rows >= q.Limit && wait && !q.closed {
			q.room.Wait()
		}
		if q.rows >= q.Limit || q.closed {
			return false
		}
		q.rows++
	case it.mark():
		if at, ok := q.marks[it.Leaf]; ok {
			q.items[at].Signal = it.Signal
			return true
		}
	case it.gap():
		if q.closed || q.gaps[it.Leaf] {
			return true
		}
	}
	q.add(it)
	q.token()
	return true
}

func (q *Queue) token() {
	select {
	case q.Ready <- struct{}{}:
	default:
	}
}

// Round is how many items there are. So many calls of pop take all of them,
// whatever is added meanwhile: nothing is merged in front of them.
func (q *Queue) Round() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.before = len(q.items) - q.head
	return q.before
}

// Wake puts the token back if there are items.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.items) {
		q.token()
	}
}

func (q *Queue) add(it Item) {
	delete(q.marks, it.Leaf)
	switch {
	case it.mark():
		q.marks[it.Leaf] = len(q.items)
	case it.gap():
		q.gaps[it.Leaf] = true
	case it.Batch != nil:
		delete(q.gaps, it.Leaf)
	}
	q.items = append(q.items, it)
}

// merge makes one of all partial rows of one group, but for those of a round. They
// take the place of the first ones: partial rows may always come earlier, unless
// reporting was suspended or resumed between them.
func (q *Queue) merge() {
	var all map[*plan.Partial][]*batch.Batch
	old := q.items[q.head:]
	q.items, q.head, q.partials = make([]Item, 0, len(old)), 0, 0
	clear(q.marks)
	clear(q.gaps)
	for i, it := range old {
		if i < q.before {
			if q.add(it); it.Partial != nil {
				q.partials++
			}
			continue
		}
		if i == q.before || old[i-1].divides() {
			all = partialsOf(old[i:])
		}
		if it.Partial != nil {
			for _, b := range agg.MergePartials(it.Partial, all[it.Partial]) {
				q.add(Item{Leaf: it.Leaf, Batch: b, Partial: it.Partial})
				q.partials++
			}
			all[it.Partial] = nil
			continue
		}
		if at, ok := q.marks[it.Leaf]; ok && it.mark() {
			q.items[at].Signal = it.Signal
			continue
		}
		q.add(it)
	}
	// Not again before there is twice as much: where nothing becomes one, merging
	// must not be all that is done. Beyond half the limit it is not tried.
	q.mergeAt = min(max(leastMerged, 2*q.partials), q.Limit)
	if q.partials > q.Limit/2 {
		q.mergeAt = math.MaxInt
	}
}

// partialsOf are the batches of partial rows of items up to one that divides.
func partialsOf(items []Item) map[*plan.Partial][]*batch.Batch {
	all := map[*plan.Partial][]*batch.Batch{}
	for _, it := range items {
		if it.divides() {
			break
		}
		if it.Partial != nil {
			all[it.Partial] = append(all[it.Partial], it.Batch)
		}
	}
	return all
}

// Pop takes the next item, if there is one.
func (q *Queue) Pop() (Item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		return Item{}, false
	}
	it := q.items[q.head]
	if at, ok := q.marks[it.Leaf]; ok && at == q.head {
		delete(q.marks, it.Leaf)
	}
	if it.gap() {
		delete(q.gaps, it.Leaf)
	}
	q.items[q.head] = Item{}
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
	case it.Partial != nil:
		if q.partials--; q.partials <= q.Limit/2 {
			q.mergeAt = min(q.mergeAt, max(leastMerged, 2*q.partials), q.Limit)
		}
	case it.Batch != nil:
		q.rows--
		q.room.Signal()
	}
	return it, true
}

// Closed reports whether the queue is closed.
func (q *Queue) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// Close lets everybody go who waits for room and drops what is queued.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, it := range q.items[q.head:] {
		if it.Batch != nil {
			it.Batch.Release()
		}
	}
	q.items, q.head, q.rows, q.partials, q.before = nil, 0, 0, 0, 0
	clear(q.marks)
	clear(q.gaps)
	q.room.Broadcast()
}
