package probes

import "endoscope/operators/batch"

// Sink takes what a source acquires. Its methods may be called from one
// goroutine at a time.
type Sink interface {
	// Push gives a batch with spec.Out's columns; the sink owns the reference.
	// Columns of spec.FilterOnly that Residual does not read hold anything.
	// It blocks only for sources that are not Live.
	Push(b *batch.Batch)
	// Partial gives a batch with the columns of spec.Partial.Out; the sink owns
	// the reference. It never blocks.
	Partial(b *batch.Batch)
	// Watermark promises that no row with a lower event time follows.
	Watermark(t int64)
	// Lost counts n events that did not become rows.
	Lost(cause string, n uint64)
	// Count counts something that is no loss but worth a line (calls
	// unfinished at the end, calls skipped).
	Count(cause string, n uint64)
	// End ends the stream: the target is gone, the file is read, Stop was
	// called, or err.
	End(err error)
}

// SharedSink is a Sink that hands on to several. A source that can be shared tells
// it when events began that take time.
type SharedSink interface {
	Sink
	// PushBegun is Push. begun are the times at which the events of b's rows began;
	// the source keeps the slice.
	PushBegun(b *batch.Batch, begun []int64)
}

// Unfinished is the cause under which events are counted that had begun and did
// not end.
const Unfinished = "unfinished"
