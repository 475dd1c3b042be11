package decode

import (
	"slices"
	"time"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/ringbuf"
)

const (
	// pollInterval bounds the delay of an event when events are rare.
	pollInterval = 10 * time.Millisecond
	// Seldom is that of queries with a budget, whose events are folded in the kernel, and
	// MostSeldom if they have no panes that wait for watermarks.
	Seldom, MostSeldom = time.Second, 4 * time.Second
	// SampleSeldom is that of queries with a budget that give rows.
	SampleSeldom = 250 * time.Millisecond
	// MarkInterval bounds the distance between watermarks, busy or idle.
	MarkInterval = 20 * time.Millisecond
	// lossInterval bounds the delay after which a query is notified of losses.
	lossInterval = time.Second
	// maxPosted is the capacity of the queue of commands.
	maxPosted = 64
)

// Reader is the goroutine that passes events from the ring to all subscriptions.
type Reader struct {
	ring        *ringbuf.Buffer
	Executables *Names
	commands    chan func()
	stopped     chan struct{}

	// Owned by the goroutine.
	stopping bool
	routes   []*Subscription // by query
	subs     []*Subscription
	drained  int64 // boot time up to which all records have been read
	lookedAt time.Time
	markedAt time.Time
	dispatch func([]byte) // r.give, bound once
}

func Start(ring *ringbuf.Buffer) *Reader {
	r := &Reader{
		ring:        ring,
		Executables: newExeNames(),
		commands:    make(chan func(), maxPosted),
		stopped:     make(chan struct{}),
		drained:     clock.Boot(),
	}
	r.dispatch = r.dispatchRecord
	go r.run()
	return r
}

// Do runs f on the reader goroutine between two drains, and waits for it.
func (r *Reader) Do(f func()) { <-r.Post(f) }

// Post queues f to run on the reader goroutine between two drains, after earlier
// posts. The channel is closed when f has run. Post blocks only while maxPosted
// commands are queued.
func (r *Reader) Post(f func()) (done <-chan struct{}) {
	executed := make(chan struct{})
	r.commands <- func() { f(); close(executed) }
	r.ring.Wake()
	return executed
}

// DrainAll dispatches everything that was written until now. Only the reader calls it.
func (r *Reader) DrainAll() { r.ring.DrainAll(r.dispatch) }

// Stop ends the reader and waits for it.
func (r *Reader) Stop() {
	r.Do(func() { r.stopping = true })
	<-r.stopped
}

func (r *Reader) run() {
	defer close(r.stopped)
	for !r.stopping {
		r.cycle()
		select {
		case f := <-r.commands:
			f()
		default:
			r.ring.Wait(r.pause())
		}
	}
}

// pause returns how long to wait for events. The wake-ups are most of what a query costs that
// has few, and count where it has a budget.
func (r *Reader) pause() time.Duration {
	d := MostSeldom
	for _, s := range r.subs {
		if s.Seldom == 0 {
			return pollInterval
		}
		d = min(d, s.Seldom)
	}
	return d
}

// cycle drains the ring and advances the watermarks of the subscriptions.
func (r *Reader) cycle() {
	now := clock.Boot()
	if end := r.ring.Produced(); r.ring.Drain(end, r.dispatch) == end {
		r.drained = now // else a record is still being written, and hides those behind it
	}
	for _, s := range r.subs {
		s.Flush()
	}
	at := time.Now()
	if at.Sub(r.markedAt) >= MarkInterval-pollInterval {
		r.markedAt = at
		for _, s := range r.subs {
			s.watermark(r.drained - s.Lateness)
		}
	}
	if at.Sub(r.lookedAt) >= lossInterval {
		r.lookedAt = at
		for _, s := range r.subs {
			s.Account()
		}
	}
}

// dispatchRecord passes a record to the subscription of its query.
func (r *Reader) dispatchRecord(record []byte) {
	if len(record) < sizeEntry {
		return
	}
	query := (*bpf.FunctionEvent)(unsafe.Pointer(unsafe.SliceData(record))).Query
	if int(query) >= len(r.routes) || r.routes[query] == nil {
		return
	}
	s := r.routes[query]
	if s.Reported != nil && (*bpf.FunctionEvent)(unsafe.Pointer(unsafe.SliceData(record))).Function == definesMethod {
		s.define(record)
		return
	}
	if Decode(record, s.options, &s.event) {
		s.add(&s.event)
	}
}

// Subscribe routes the events of s's query to s from now on.
func (r *Reader) Subscribe(s *Subscription) {
	r.Do(func() {
		for int(s.Installation.Query) >= len(r.routes) {
			r.routes = append(r.routes, nil)
		}
		r.routes[s.Installation.Query] = s
		r.subs = append(r.subs, s)
	})
}

// Unsubscribe delivers to s all events until now, accounts for calls that produced no
// row, and removes s. Its probes must be detached before. left holds the aggregated
// rows not yet delivered.
func (r *Reader) Unsubscribe(s *Subscription, left []*batch.Batch) {
	r.Do(func() {
		r.DrainAll()
		r.routes[s.Installation.Query] = nil
		r.subs = slices.DeleteFunc(r.subs, func(t *Subscription) bool { return t == s })
		s.Flush()
		s.PushPartial(left, s.Bound)
		s.report()
	})
}
