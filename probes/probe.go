package probes

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// Provider acquires certain streams.
type Provider interface {
	// Streams are the catalog names that it serves.
	Streams() []string
	// Prepare resolves a specification against the machine (processes,
	// functions, rights), and leaves nothing attached: at most it has counted
	// calls for some milliseconds, to know what Start would cost. Refusals are
	// *plan.Error, placed by the offsets that the specification carries.
	Prepare(ctx context.Context, spec *plan.Acquire) (Source, error)
	// Close frees what the provider keeps between queries.
	Close() error
}

// Source is one prepared acquisition.
type Source interface {
	// Sites says what will be done, for EXPLAIN and sys.probes.
	Sites() []Site
	// Notices are for the user: functions skipped and why, and the like.
	Notices() []string
	// Residual is what remains to be tested of spec.Filter: all of it if the
	// source applies none, nil if it applies all.
	Residual() plan.Expr
	// Live reports that events happen whether or not anybody is ready for
	// them: the engine then drops and counts instead of making the source wait.
	Live() bool
	// Start arms the acquisition and returns when it is armed: from then on
	// every event is given to sink or counted. It is called once.
	Start(ctx context.Context, sink Sink) error
	// Stop disarms, gives what is still under way (events that happened before
	// the call) to the sink, and ends the stream with sink.End. It returns
	// when nothing is attached any more. Safe to call twice.
	Stop() error
}

// Aggregator is a Source that can run the first stage of an aggregate, spec's
// Partial, where events happen.
type Aggregator interface {
	Source
	// Aggregates reports whether it will: known from Prepare on. Events then
	// reach the sink as partial rows, and singly where they could not be
	// aggregated (Sink.Push); both count for watermarks.
	Aggregates() bool
	// Describe says how, for EXPLAIN: "dense by function", "hash by tid, 32768
	// groups"; "" if it will not.
	Describe() string
	// Collect gives the sink what has been aggregated of the events that
	// happened before the call, and returns when it has. Sources whose spec has
	// panes give each when it is over without being asked, as watermarks allow; of
	// one that is collected before, the rest follows then. Stop collects, too. Safe
	// to call while the source ends.
	Collect() error
}

// Loader is a Source that can do what takes long about Start before it, for those
// who want to be armed at once.
type Loader interface {
	Source
	// Load attaches nothing. It is called once, between Prepare and Start; Stop
	// lets go of what it did if Start never comes.
	Load(ctx context.Context) error
}

// Shareable is a Source that several queries can have a part in: it gives what it
// acquires to a sink that hands it on, and Divide tells what is whose.
type Shareable interface {
	Source
	// Identity, known from Prepare on, is equal for the sources of two equal
	// specifications only if they would do the same: attach to the same places
	// of the same files, and observe the same processes. "": it cannot be shared.
	Identity() string
	// Divide cuts what the source gives into what was before and what is after.
	// It calls begin and then done, each between two calls of the sink. Rows tell
	// by when their events began on which side they are: those of before may come
	// after begin, and none of after came before. Partial rows, losses and counts
	// (but Unfinished) are of before until done is called, and of after from then
	// on; all rows of before have come by then, but of events that have not ended.
	// A source that has ended calls neither, and one that ends or fails meanwhile
	// may not call done.
	Divide(begin func(Cut), done func()) error
	// Unfinished is how many events have not ended that began after one cut and
	// before another; zero cuts: no matter when. It is called from calls of the sink
	// and from the functions given to Divide.
	Unfinished(from, until Cut) uint64
}

// Cut is where a source is divided. The zero value is nowhere.
type Cut struct {
	At     int64  // event time
	Number uint64 // from 1
}

// SharedSink is a Sink that hands on to several. A Shareable source tells it when
// events began that take time.
type SharedSink interface {
	Sink
	// PushBegun is Push. begun are the times at which the events of b's rows began;
	// the source keeps the slice.
	PushBegun(b *batch.Batch, begun []int64)
}

// Unfinished is the cause under which events are counted that had begun and did
// not end.
const Unfinished = "unfinished"

// Sampler is a Source that gives its value only when it is asked
// (spec.OnDemand), and costs little or nothing in between.
type Sampler interface {
	Source
	// Sample gives the sink the rows of the value at this moment, none if there
	// is no value, before it returns. It is called between Start and Stop, by
	// whoever gets what the sink is given.
	Sample(ctx context.Context) error
}

// Hushable is a Source that somebody keeps track of, whether or not it is reported
// (plan.Tracked): while it is not, it need not tell what only reports need.
type Hushable interface {
	Source
	// Hush says that nothing is reported of what happens from now on: nowhere, or on
	// threads of these names; neither: everything is. Safe to call at any time.
	Hush(all bool, threads []string)
}

// Estimator is a Source that has estimated what it will cost; its notices say
// what.
type Estimator interface {
	Source
	// Refusal is why Start will refuse because of the cost, nil if it will not:
	// EXPLAIN shows the estimate all the same.
	Refusal() error
}

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

// Site is one place where something is attached or read.
type Site struct {
	Provider string  // uprobe, procfs, ...
	Function string  // or the file that is read
	Module   string  // base name of the ELF file
	Address  uint64  // file offset of the probed instruction; 0: none
	Behind   uint64  // how many bytes of that lie behind the function's entry
	Method   string  // emulated, stepped, nop, iterator, procfs, replay
	Kind     string  // entry, entry+return (session), entry+exits (n), exit, ...; (perf): a link of its own
	CostNs   float64 // estimated ns per event; 0: unknown
	// Estimated: CostNs was not measured on this machine, as that of others is.
	Estimated bool
	Hits      uint64 // sys.probes
	// Sources are those that it serves (sys.probes).
	Sources []Source
}
