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

// waitingEvents is how many events may wait for a client for which the query
// waits.
const waitingEvents = 64

// waitingCues is how many events may wait for a client before cues for its fragment
// wait for it, too.
const waitingCues = 1024

// compactFrom is how many events wait for a client that is behind: it will be long until
// the memory of those that come is used again.
const compactFrom = 8

// notRead is the cause of rows that were dropped because nobody read them.
const notRead = "not read in time"

// Outlet is the last operator of a query and its wire.Result's other half: a queue
// of events. When it is full the query waits, or, where waiting would have live
// sources drop what operators have not seen yet, rows are dropped and counted.
type Outlet struct {
	t       *Tally
	Preview bool  // rows pushed now are a preview; the runner's
	unread  int64 // wire.Options.Unread
	Marks   bool  // wire.Options.Marks
	Timed   bool  // watermarks are times, and not numbers of lines
	Whole   bool  // rows are states of groups: none is dropped
	// Hurried is set while a live source runs: the query must not wait.
	Hurried atomic.Bool

	// Who waits for room does not overlook that the query is to end: halt, called by
	// the runner, has its sources stop. The zero values never end it.
	Stop     <-chan struct{}
	Deadline <-chan time.Time
	Halt     func()

	given   uint64 // rows, the dropped ones included; the runner's
	skipped bool   // of a preview: the rest is not wanted either; the runner's
	within  bool   // a preview has begun; the runner's

	mu      sync.Mutex
	events  []wire.Event
	head    int
	held    footprint     // by the rows in events
	mark    int64         // the latest watermark
	ready   chan struct{} // has a token after something came
	room    chan struct{} // has a token after something was taken
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

// pushPreview gives rows of a preview, of which all or none are of use. A client
// that is behind can do without.
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

// SendRows has the client get rows for its fragment of the plan. States of groups stand
// for any number of rows: none of them is dropped.
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

// SendCue has the client's fragment told something.
func (o *Outlet) SendCue(ctx context.Context, c wire.Cue) error {
	_, err := o.send(ctx, wire.Event{Kind: wire.Cued, Cue: c})
	return err
}

// send has the client get an event. It waits for room, or, if the query must not
// wait, drops rows for which there is none: then it reports false.
func (o *Outlet) send(ctx context.Context, ev wire.Event) (kept bool, err error) {
	if o.unread > 0 && ev.Batch != nil && o.waiting() >= compactFrom {
		ev.Batch = ev.Batch.Compact()
	}
	stop, deadline := o.Stop, o.Deadline
	for {
		if o.put(ev) {
			return true, nil
		}
		if o.unread > 0 && o.Hurried.Load() && ev.Batch != nil && ev.Port != wire.PortStates && !o.Whole {
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
		// Of cues that nothing came between the last says it all.
		if last := len(o.events) - 1; n > 0 && o.events[last].Kind == wire.Cued && o.events[last].Cue.Kind == ev.Cue.Kind && o.events[last].Cue.Preview == ev.Cue.Preview {
			ev.Mark = o.mark
			o.events[last] = ev
			return true
		}
		if n >= waitingCues {
			return false
		}
	case n > 0 && o.events[len(o.events)-1].Kind == ev.Kind:
		return true // all that came between was dropped: it says nothing new
	}
	ev.Mark = o.mark
	o.events = append(o.events, ev)
	token(o.ready)
	return true
}

// Crowded reports whether so much waits for the client of a query that must not wait
// that rows will soon be dropped.
func (o *Outlet) Crowded() bool {
	if o.unread == 0 || !o.Hurried.Load() || o.Whole {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held.bytes > o.unread/2
}

// Untaken is how many rows wait for the client.
func (o *Outlet) Untaken() (n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ev := range o.events[o.head:] {
		if ev.Batch != nil && ev.Port != wire.PortStates {
			n += uint64(ev.Batch.Len())
		}
	}
	return n
}

// advance notes that all rows before t were given, and reports it to the client:
// with what they take next, or as an event of its own where nothing waits.
func (o *Outlet) advance(t int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t <= o.mark || !o.Timed || t == math.MaxInt64 { // the last: nothing comes any more
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

// waiting is how many events the client has not taken.
func (o *Outlet) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.events) - o.head
}

// Finish ends the result, with the query's error or nil.
func (o *Outlet) Finish(err error, elapsed time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.elapsed, o.over = err, elapsed, true
	token(o.ready)
}

// Failure is why the query ended, once it has; nil if as it should.
func (o *Outlet) Failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Lasted is how long the query ran, once it has ended.
func (o *Outlet) Lasted() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.elapsed
}

// Next is the client's side.
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

// pop gives the next event, if there is one, or how the result ended.
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
		token(o.ready) // for others who ask
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

// Discard lets go of what nobody will take.
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
