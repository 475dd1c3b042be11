package server

import (
	"context"
	"io"
	"sync"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// outlet is the last operator of a query and its wire.Result's other half.
type outlet struct {
	t       *tally
	events  chan wire.Event
	preview bool // rows pushed now are a preview; the runner's

	mu      sync.Mutex
	err     error
	elapsed time.Duration
}

func newOutlet(t *tally) *outlet { return &outlet{t: t, events: make(chan wire.Event, 64)} }

func (o *outlet) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if b.Len() == 0 {
		return operators.More, nil
	}
	if !o.preview {
		o.t.rows.Add(uint64(b.Len()))
	}
	return operators.More, o.send(ctx, wire.Event{Kind: wire.Rows, Batch: b.Retain(), Preview: o.preview})
}

func (o *outlet) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	switch s.Kind {
	case operators.Flush:
		kind := wire.Flush
		if s.Preview {
			kind = wire.Preview
		}
		return operators.More, o.send(ctx, wire.Event{Kind: kind})
	case operators.Gap:
		o.t.addLost(s.Cause, s.N)
	}
	return operators.More, nil
}

func (o *outlet) Close(context.Context, int) error { return nil }

// send waits for the client; what comes in the meantime waits in the queue,
// and what finds that full is dropped and counted.
func (o *outlet) send(ctx context.Context, ev wire.Event) error {
	select {
	case o.events <- ev:
		return nil
	case <-ctx.Done():
		if ev.Batch != nil {
			ev.Batch.Release()
		}
		return ctx.Err()
	}
}

// finish ends the result, with the query's error or nil.
func (o *outlet) finish(err error, elapsed time.Duration) {
	o.mu.Lock()
	o.err, o.elapsed = err, elapsed
	o.mu.Unlock()
	close(o.events)
}

// next is the client's side.
func (o *outlet) next(ctx context.Context) (wire.Event, error) {
	select {
	case ev, ok := <-o.events:
		if ok {
			return ev, nil
		}
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return wire.Event{}, o.err
	}
	return wire.Event{}, io.EOF
}
