package probes

import "endoscope/operators/batch"

// Sink receives what a source acquires. Its methods are called by one goroutine
// at a time.
type Sink interface {
	// Push passes a batch with spec.Out's columns; the sink owns the reference.
	// Columns of spec.FilterOnly that Residual does not read have undefined
	// values. It blocks only for sources that are not Live.
	Push(b *batch.Batch)
	// Partial passes a batch with the columns of spec.Partial.Out; the sink
	// owns the reference. It never blocks.
	Partial(b *batch.Batch)
	// Watermark promises that no row with an event time below t follows.
	Watermark(t int64)
	// Lost counts n events that did not become rows.
	Lost(cause string, n uint64)
	// Count counts an event that is no loss but is reported in the footer
	// (calls unfinished at the end, calls skipped).
	Count(cause string, n uint64)
	// End ends the stream: the target has ended, the file is read, Stop was
	// called, or err.
	End(err error)
}

// SharedSink is a Sink that forwards to several. A source that can be shared
// also passes the begin times of events with a duration.
type SharedSink interface {
	Sink
	// PushBegun is Push. begun are the begin times of the events of b's rows;
	// the source keeps ownership of the slice.
	PushBegun(b *batch.Batch, begun []int64)
}

// RecallSink is a Sink of recorded events (Options.Record). The rows of a firing
// are followed by its number in the set.
type RecallSink interface {
	Sink
	Recalled(number uint64)
}

// Unfinished is the cause counted for events that began and did not end.
const Unfinished = "unfinished"

// Unobserved is the cause counted for processes that those of the target have started, or
// these in turn, and that are not observed. Acquisitions of one target count the same ones.
const Unobserved = "child processes not observed (SET follow = 'children' observes them)"
