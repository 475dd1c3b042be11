package server

import (
	"sync"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// item is one thing that happened at a leaf.
type item struct {
	leaf    int
	batch   *batch.Batch
	partial bool             // of batch: partial rows
	signal  operators.Signal // where batch is nil and end is false
	end     bool
	err     error
}

// queue holds what sources gave until the runner takes it. Batches of rows are
// bounded; partial rows are few, since they come when they are asked for, and
// signals are, since a watermark replaces the one before it.
type queue struct {
	mu     sync.Mutex
	items  []item
	head   int
	rows   int           // batches of rows queued
	limit  int           // of batches
	ready  chan struct{} // has a token when items were added
	room   *sync.Cond    // signalled when a batch was taken
	closed bool          // the runner takes nothing any more
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit, ready: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push adds an item. A batch of rows that finds the queue full waits if wait is
// set, and otherwise is refused: the caller counts it as lost. Partial rows are
// refused only by a closed queue.
func (q *queue) push(it item, wait bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.batch != nil && q.closed {
		return false
	}
	if it.batch != nil && !it.partial {
		for q.rows >= q.limit && wait && !q.closed {
			q.room.Wait()
		}
		if q.rows >= q.limit || q.closed {
			return false
		}
		q.rows++
	} else if n := len(q.items); it.batch == nil && !it.end && it.signal.Kind == operators.Watermark && n > q.head {
		if last := &q.items[n-1]; last.leaf == it.leaf && last.batch == nil && !last.end && last.signal.Kind == operators.Watermark {
			last.signal = it.signal
			return true
		}
	}
	q.items = append(q.items, it)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true
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
	q.items[q.head] = item{}
	q.head++
	if q.head > 1024 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	if it.batch != nil && !it.partial {
		q.rows--
		q.room.Signal()
	}
	return it, true
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
	q.items, q.head, q.rows = nil, 0, 0
	q.room.Broadcast()
}
