package flow

import (
	"math"
	"sync"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// Item is one event at a leaf.
type Item struct {
	Leaf    int
	Batch   *batch.Batch
	Partial *plan.Partial    // set if batch holds partial rows of this stage
	Fault   *Fault           // counted when the runner takes it
	Signal  operators.Signal // where batch and fault are nil and end is false
	End     bool
	Err     error
}

// Fault is what a source that waits for its consumer lost, or noted, at this point of its
// rows.
type Fault struct {
	Cause string
	N     uint64
	Lost  bool
}

// signal reports whether the item is a signal.
func (it *Item) signal() bool { return it.Batch == nil && it.Fault == nil && !it.End }

// mark reports whether the item is a watermark.
func (it *Item) mark() bool {
	return it.signal() && it.Signal.Kind == operators.Watermark
}

// gap reports whether the item marks missing rows.
func (it *Item) gap() bool {
	return it.signal() && it.Signal.Kind == operators.Gap
}

// divides reports whether the items before this one must stay separate from
// those after it: reporting begins or ends there.
func (it *Item) divides() bool {
	return it.signal() && (it.Signal.Kind == operators.Suspend || it.Signal.Kind == operators.Resume)
}

// Queue holds items of the sources until the runner takes them. It is bounded,
// however slow the runner is: the number of batches of rows by a limit; that of
// partial rows by the same limit, after rows of the same group are merged. A
// watermark replaces the previous one of its leaf if nothing from that leaf
// came in between, and of several gaps between two batches one is kept.
type Queue struct {
	mu       sync.Mutex
	items    []Item
	head     int
	rows     int           // batches of rows queued
	partials int           // batches of partial rows queued
	mergeAt  int           // number of batches from which merging is worth it
	before   int           // number of items from head on that must not be merged: see Round
	marks    map[int]int   // by leaf: the index in items of its last item, if that is a watermark
	gaps     map[int]bool  // leaves that have a Gap queued with no rows after it
	Limit    int           // in batches
	Ready    chan struct{} // holds a token when items were added
	room     *sync.Cond    // signalled when a batch was taken
	closed   bool          // the runner takes no more items
}

// leastMerged is the least number of batches of partial rows that are merged at
// a time.
const leastMerged = 64

func NewQueue(limit int) *Queue {
	q := &Queue{Limit: limit, marks: map[int]int{}, gaps: map[int]bool{}, Ready: make(chan struct{}, 1)}
	q.mergeAt = min(leastMerged, limit)
	q.room = sync.NewCond(&q.mu)
	return q
}

// Push adds an item. If the queue is full, a batch of rows waits if wait is
// set, and is otherwise refused: the caller counts it as lost. Partial rows are
// refused, too, if merging has not made room for them.
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

// Round returns the number of items. That many calls of Pop take exactly these
// items: nothing is merged into them meanwhile.
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

// merge merges the partial rows of each group, except those of a round. The
// merged rows take the place of the first ones: partial rows may always arrive
// earlier, unless reporting was suspended or resumed between them.
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
	// Merge again only when there are twice as many: where rows do not merge,
	// the queue must not spend all its time trying. Beyond half the limit it is
	// not tried.
	q.mergeAt = min(max(leastMerged, 2*q.partials), q.Limit)
	if q.partials > q.Limit/2 {
		q.mergeAt = math.MaxInt
	}
}

// partialsOf returns the batches of partial rows of items, up to one that
// divides.
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

// Close wakes all who wait for room and drops what is queued.
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
