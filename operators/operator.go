package operators

import (
	"context"

	"endoscope/operators/batch"
)

// Status is a consumer's answer to a producer.
type Status uint8

// More: continue. Drain: send no more rows, only finish (Close). Closed: the operator is
// finished and receives nothing more.
const (
	More Status = iota
	Drain
	Closed
)

// SignalKind is the kind of a signal.
type SignalKind uint8

// Signals are sent between batches, in order with them.
const (
	// Watermark: no row with event time below Time will come on this port, except late
	// ones. An idle source sends them too.
	Watermark SignalKind = iota
	// Tick: the clock has reached Time (ns since the epoch). The engine sends one for each
	// EMIT EVERY interval, counted from when the query was armed, and, with Preview, when a
	// live display requests the current result.
	Tick
	// Gap: N events were lost on this port, for Cause. Operators forward it. N is 0 if they
	// are counted on another path to the result.
	Gap
	// Barrier: everything of an epoch (ID) has been sent; used to move operators.
	Barrier
	// Flush: one emitted result is complete (a window, an interval of EMIT EVERY, or, with
	// Preview, a snapshot of a result that is not final). Operators that sort, limit or
	// display results act on it.
	Flush
	// Suspend: from here on nothing is reported for the thread Thread, or for any thread if
	// it is "". Resume undoes a Suspend of the same thread. They are handled by the
	// operator that reports (CONSISTENT, or else the leaves) and not forwarded.
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
// The caller owns b and may release it when Push returns; an operator that keeps it retains
// it. Push, Signal and Close of one operator are never called concurrently. An error ends
// the query; it is a *plan.Error if the statement or its data caused it. After Close of its
// last port an operator pushes what it still holds and closes its own consumer.
type Operator interface {
	Push(ctx context.Context, port int, b *batch.Batch) (Status, error)
	Signal(ctx context.Context, port int, s Signal) (Status, error)
	Close(ctx context.Context, port int) error
}
