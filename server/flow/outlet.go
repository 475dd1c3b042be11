package flow

import (
	"context"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// waitingEvents is how many events may wait for a client while the query may
// wait for it.
const waitingEvents = 64

// waitingCues is how many events may wait before cues for the client's fragment
// wait, too.
const waitingCues = 1024

// compactFrom is the number of waiting events from which batches are compacted:
// the client is slow, so their memory will not be reused soon.
const compactFrom = 8

// notRead is the cause of rows that were dropped because the client did not
// read them.
const notRead = "not read in time"

// Outlet is the last operator of a query and the producer side of its
// wire.Result: a queue of events. When the queue is full the query waits, or,
// if waiting would make live sources drop events, result rows are dropped and
// counted.
type Outlet struct {
	t       *Tally
	Preview bool  // rows pushed now belong to a preview; used by the runner only
	unread  int64 // wire.Options.Unread
	Marks   bool  // wire.Options.Marks
	Timed   bool  // watermarks are times rather than line numbers
	Whole   bool  // rows are group states: none is dropped
	// Live is set while a live source runs: the query must not wait.
	Live atomic.Bool

	// A send that waits for room also watches Stop and Deadline, and calls
	// Halt, which stops the query's sources, when either fires. The zero values
	// never do.
	Stop     <-chan struct{}
	Deadline <-chan time.Time
	Halt     func()

	given   uint64 // number of rows, including dropped ones; used by the runner only
	skipped bool   // the rest of this preview is dropped; used by the runner only
	within  bool   // a preview has begun; used by the runner only

	mu      sync.Mutex
	events  []wire.Event
	head    int
	held    footprint     // by the rows in events
	mark    int64         // the latest watermark
	ready   chan struct{} // holds a token after an event was added
	room    chan struct{} // holds a token after an event was taken
	over    bool
	err     error
	elapsed time.Duration
}

func NewOutlet(t *Tally, unread int64) *Outlet {
	return &Outlet{t: t, unread: unread, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (o *Outlet) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if b.Len() == 0 {
		return operators.More, nil
	}
	ev := wire.Event{Kind: wire.Rows, Batch: b.Retain(), Preview: o.Preview, Row: o.given}
	if o.Preview {
		return operators.More, o.pushPreview(ctx, ev)
	}
	n := uint64(b.Len())
	o.given += n
	kept, err := o.send(ctx, ev)
	switch {
	case err != nil:
	case kept:
		o.t.Rows.Add(n)
	default:
		o.t.AddLost(notRead, n)
	}
	return operators.More, err
}

// pushPreview sends rows of a preview. A preview is sent whole or not at all; a
// client that is slow gets none.
func (o *Outlet) pushPreview(ctx context.Context, ev wire.Event) error {
	if !o.within {
		o.within = true
		o.skipped = o.unread > 0 && o.waiting() > 0
	}
	if o.skipped {
		ev.Batch.Release()
		return nil
	}
	kept, err := o.send(ctx, ev)
	o.skipped = !kept
	return err
}

func (o *Outlet) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch s.Kind {
	case operators.Flush:
		kind := wire.Flush
		if s.Preview {
			kind = wire.Preview
			skipped := o.skipped
			if o.within, o.skipped = false, false; skipped {
				return operators.More, nil
			}
		}
		_, err := o.send(ctx, wire.Event{Kind: kind})
		return operators.More, err
	case operators.Watermark:
		o.advance(s.Time)
	case operators.Gap:
		o.t.AddLost(s.Cause, s.N)
	}
	return operators.More, nil
}

func (o *Outlet) Close(context.Context, int) error { return nil }

// SendRows sends rows to the client's fragment of the plan. A group state
// stands for any number of rows, so none is dropped.
func (o *Outlet) SendRows(ctx context.Context, port wire.Port, b *batch.Batch) error {
	n := uint64(b.Len())
	if n == 0 {
		return nil
	}
	ev := wire.Event{Kind: wire.Rows, Batch: b.Retain(), Port: port, Row: o.given}
	if port != wire.PortStates {
		o.given += n
	}
	kept, err := o.send(ctx, ev)
	switch {
	case err != nil:
	case kept:
		o.t.Rows.Add(n)
	default:
		o.t.AddLost(notRead, n)
	}
	return err
}

// SendCue sends a cue to the client's fragment.
func (o *Outlet) SendCue(ctx context.Context, c wire.Cue) error {
	_, err := o.send(ctx, wire.Event{Kind: wire.Cued, Cue: c})
	return err
}

// send queues an event for the client. If there is no room it waits or, if the
// query must not wait, drops rows and returns false.
func (o *Outlet) send(ctx context.Context, ev wire.Event) (kept bool, err error) {
	if o.unread > 0 && ev.Batch != nil && o.waiting() >= compactFrom {
		ev.Batch = ev.Batch.Compact()
	}
	stop, deadline := o.Stop, o.Deadline
	for {
		if o.put(ev) {
			return true, nil
		}
		if o.unread > 0 && o.Live.Load() && ev.Batch != nil && ev.Port != wire.PortStates && !o.Whole {
			ev.Batch.Release()
			return false, nil
		}
		select {
		case <-o.room:
		case <-stop:
			stop = nil
			o.Halt()
		case <-deadline:
			deadline = nil
			o.Halt()
		case <-ctx.Done():
			if ev.Batch != nil {
				ev.Batch.Release()
			}
			return false, ctx.Err()
		}
	}
}

// put adds an event if there is room for it.
func (o *Outlet) put(ev wire.Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.events) - o.head
	switch {
	case o.unread == 0:
		if n >= waitingEvents {
			return false
		}
	case ev.Batch != nil:
		if o.held.add(ev.Batch) > o.unread && n > 0 {
			o.held.remove(ev.Batch)
			return false
		}
	case ev.Kind == wire.Cued:
		// Of consecutive cues only the last matters.
		if last := len(o.events) - 1; n > 0 && o.events[last].Kind == wire.Cued && o.events[last].Cue.Kind == ev.Cue.Kind && o.events[last].Cue.Preview == ev.Cue.Preview {
			ev.Mark = o.mark
			o.events[last] = ev
			return true
		}
		if n >= waitingCues {
			return false
		}
	case n > 0 && o.events[len(o.events)-1].Kind == ev.Kind:
		return true // all rows since the last one were dropped: it says nothing new
	}
	ev.Mark = o.mark
	o.events = append(o.events, ev)
	token(o.ready)
	return true
}

// NearlyFull reports whether so many events wait for the client of a query that
// must not wait that rows will soon be dropped.
func (o *Outlet) NearlyFull() bool {
	if o.unread == 0 || !o.Live.Load() || o.Whole {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held.bytes > o.unread/2
}

// UnreadRows returns the number of rows that wait for the client.
func (o *Outlet) UnreadRows() (n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ev := range o.events[o.head:] {
		if ev.Batch != nil && ev.Port != wire.PortStates {
			n += uint64(ev.Batch.Len())
		}
	}
	return n
}

// advance records that all rows before t were sent. The client gets t with the
// next event it takes, or as an event of its own if none waits.
func (o *Outlet) advance(t int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t <= o.mark || !o.Timed || t == math.MaxInt64 { // MaxInt64 is the final watermark
		return
	}
	o.mark = t
	switch n := len(o.events); {
	case n > o.head:
		o.events[n-1].Mark = t
	case o.Marks:
		o.events = append(o.events, wire.Event{Kind: wire.Mark, Mark: t})
		token(o.ready)
	}
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waiting returns the number of events that the client has not taken.
func (o *Outlet) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.events) - o.head
}

// Finish ends the result, with the query's error or nil.
func (o *Outlet) Finish(err error, elapsed time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.elapsed, o.over = wire.Broken(err), elapsed, true
	token(o.ready)
}

// Failure returns the error with which the query ended; nil if it has not or
// ended normally.
func (o *Outlet) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Elapsed returns how long the query ran, once it has ended.
func (o *Outlet) Elapsed() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.elapsed
}

// Next returns the next event; it is called by the client.
func (o *Outlet) Next(ctx context.Context) (wire.Event, error) {
	for {
		if ev, ok, err := o.pop(); ok || err != nil {
			return ev, err
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			return wire.Event{}, ctx.Err()
		}
	}
}

// pop returns the next event, if there is one, or how the result ended.
func (o *Outlet) pop() (ev wire.Event, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.head == len(o.events) {
		o.events, o.head = o.events[:0], 0
		switch {
		case !o.over:
			return ev, false, nil
		case o.err != nil:
			err = o.err
		default:
			err = io.EOF
		}
		token(o.ready) // for other callers of Next
		return wire.Event{Row: o.given}, false, err
	}
	ev = o.events[o.head]
	o.events[o.head] = wire.Event{}
	if o.head++; o.head >= waitingEvents && 2*o.head >= len(o.events) {
		n := copy(o.events, o.events[o.head:])
		clear(o.events[n:])
		o.events, o.head = o.events[:n], 0
	}
	if ev.Batch != nil && o.unread > 0 {
		o.held.remove(ev.Batch)
	}
	token(o.room)
	return ev, true, nil
}

// Discard releases the events that will not be taken.
func (o *Outlet) Discard() {
	for {
		ev, ok, _ := o.pop()
		if !ok {
			return
		}
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
}
