package operators

import (
	"context"

	"endoscope/operators/batch"
)

// Status is what a consumer answers to a producer.
type Status uint8

// More: go on. Drain: send no more rows, only finish (Close). Closed: the
// operator is finished, nothing reaches it any more.
const (
	More Status = iota
	Drain
	Closed
)

// SignalKind says what a signal means.
type SignalKind uint8

// Signals travel between batches, in order with them.
const (
	// Watermark: no row with event time below Time will come on this port,
	// but for late ones. An idle source sends them too.
	Watermark SignalKind = iota
	// Tick: Time (ns since the epoch) has come. The engine sends one for each
	// EMIT EVERY interval, counted from when the query was armed, and, with
	// Preview, when a live display wants the result so far.
	Tick
	// Gap: N events were lost on this port, for Cause. Operators pass it on. N is 0
	// where they are counted on another way to the result.
	Gap
	// Barrier: everything of an epoch (ID) has been sent; for moving operators.
	Barrier
	// Flush: one emitted result is complete (a window, an interval of EMIT
	// EVERY, or, with Preview, a look at a result that is not final). What
	// sorts, limits or displays results acts on it.
	Flush
	// Suspend: from here on nothing is reported of the thread Thread, or of any
	// if that is "". Resume undoes a Suspend of the same thread. They concern
	// what reports (CONSISTENT, or else the leaves), and go no further.
	Suspend
	Resume
)

// Signal is a message that is not a row.
type Signal struct {
	Kind    SignalKind
	Time    int64  // Watermark: event time; Tick: clock; both ns
	Preview bool   // Tick, Flush
	Cause   string // Gap
	N       uint64 // Gap
	ID      uint64 // Barrier
	Thread  string // Suspend, Resume: a thread's name
}

// Operator is the contract of everything between a source and a sink.
//
// The caller owns b and may release it when Push returns; an operator that
// keeps it retains it. Push, Signal and Close of one operator are never called
// concurrently. An error ends the query; it is a *plan.Error where the user is
// to blame. After Close of its last port an operator pushes what it still
// holds and closes its own consumer.
type Operator interface {
	Push(ctx context.Context, port int, b *batch.Batch) (Status, error)
	Signal(ctx context.Context, port int, s Signal) (Status, error)
	Close(ctx context.Context, port int) error
}
