package probes

import (
	"context"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/recall"
)

// Source is one prepared acquisition. Every source has the same methods; its
// Info lists what it can do beyond Start and Stop, so type assertions are never
// needed.
//
// A source is prepared, optionally loaded, started and stopped, in this order.
// Load and Start are called at most once. A supported command has no effect
// before Start (except Suspend, which is remembered) and after the source has
// ended.
type Source interface {
	// Info describes the source. It is complete from Prepare on; Sites may
	// change while the source runs. It may be called at any time, but it is not
	// cheap: it lists every site.
	Info() Info
	// Load does the slow part of Start in advance. It attaches nothing, and may
	// do nothing. Stop undoes it if Start never follows.
	Load(ctx context.Context, o Options) error
	// Start arms the acquisition and returns when it is armed: from then on
	// every event is passed to sink or counted. After Load it is called with
	// the same options.
	Start(ctx context.Context, sink Sink, o Options) error
	// Control executes a command. It returns ErrUnsupported exactly if
	// Info().Supports(c) is false.
	Control(ctx context.Context, c Command) (Reply, error)
	// Stats returns the source's counters. It is safe to call at any time, but
	// not from the sink's methods.
	Stats() Stats
	// Stop disarms the acquisition, passes pending data of earlier events to
	// the sink, and ends the stream with sink.End. It returns when nothing is
	// attached any more. It is safe to call twice.
	Stop() error
}

// Info describes a source.
type Info struct {
	// Sites are the places where something is attached or read, for EXPLAIN and
	// sys.probes.
	Sites []Site
	// Notices are messages for the user, such as functions skipped and the
	// reason.
	Notices []string
	// Refusal is the error with which Start will fail because of the estimated
	// cost; nil if it will not. EXPLAIN shows the estimate in any case.
	Refusal error
	// Residual is the part of spec.Filter that the engine must test: all of it
	// if the source applies none, nil if it applies all.
	Residual plan.Expr
	// Live: events happen regardless of the consumer. The engine drops and
	// counts instead of blocking the source.
	Live bool
	// Identity is equal for the sources of two equal specifications only if
	// they do the same: attach to the same places of the same files, and
	// observe the same processes. Such a source can be shared, and supports
	// Divide and CountUnfinished. "": it cannot be shared.
	Identity string
	// Aggregates: the source runs the first stage of an aggregate
	// (spec.Partial) where events happen, and supports Collect. Events then
	// reach the sink as partial rows, and singly where they could not be
	// aggregated (Sink.Push); both count for watermarks. Aggregation describes
	// the method for EXPLAIN: "dense by function", "hash by tid, 32768 groups".
	Aggregates  bool
	Aggregation string
	// Strata say how a source with a budget will observe functions, or how it did, for
	// EXPLAIN.
	Strata []string
	// OnDemand: the source produces its value only for Sample (spec.OnDemand),
	// and costs little or nothing in between.
	OnDemand bool
	// Suspends: the source supports Suspend, since it keeps state whether or
	// not that is reported (plan.Tracked).
	Suspends bool
	// Remarks of a source that has ended, for the footer.
	Remarks []string
	// Resends: the source's rows depend on each other. It supports Resend for
	// consumers that have missed some.
	Resends bool
	// Gateable: the source can have a gate, or open gates of others, as far as
	// Ability says (EndoScope, section 5.3).
	Gateable bool
	Ability  plan.Ability
	// Detaches: the source can remove its probes while its gate is shut for
	// long, and supports Detach, Attach and ProcessorTime. A shut gate costs
	// each call a trap; a detached probe costs nothing.
	Detaches bool
	// Standby: the source can be attached in advance (Options.Standby) and
	// supports Begin. WaitNs is what each call then costs the program until
	// Begin, in ns.
	Standby bool
	WaitNs  float64
}

// Options are what a source must know before it loads programs.
type Options struct {
	// Gates are the gates that the source passes and opens. From Start on, it
	// acquires only what passes its gate; its watermark advances regardless.
	// Only Gateable sources receive any.
	Gates Gates
	// Standby makes Start attach everything and report nothing: events that
	// begin before Begin count as before Start, except for their cost. Begin
	// then takes microseconds. Attaching takes milliseconds, since the kernel
	// waits for readers of the changed data on all processors.
	Standby bool
	// Record is the memory in which the source records its events, rather than passing
	// them to the sink: only those that are recalled arrive there (RecallSink). Each row of
	// a source with Recall recalls the events of its thread that are recorded there.
	Record *recall.Set
	Recall *recall.Set
	// Ceiling returns what a source with a budget may take at the most, as its share of the
	// program's CPU time; nil: only the statement says. It may be called at any time.
	Ceiling func() float64
	// Required selects functions whose calls are reported even while the source
	// is suspended; nil: none.
	Required func(function string) bool
}

// Stats counts what a source has done since Start, and its cost.
type Stats struct {
	Activity
	// Prices are the current costs of its events, by the way in which its gate
	// is shut.
	Prices [plan.Asleep + 1]Price
	// Waited is the number of calls ignored during standby or because the gate
	// was shut.
	Waited uint64
	// Spent is the CPU time that the source has cost, up to less than a second ago: calls
	// as counted, at measured prices, without those of rows; samples as measured.
	Spent time.Duration
	// Overhead is what a source with a budget has taken of the program's CPU time in the last
	// seconds, with what the engine takes. 0: it is not known.
	Overhead float64
}

// Activity has counters that never decrease.
type Activity struct {
	Events uint64 // calls, or times at which a sample was due
	Shut   uint64 // events that met a shut gate
	// Awaited is the number of calls whose return was observed.
	Awaited uint64
}

// Price is the cost of an event, in ns of the machine's time.
type Price struct {
	// Open is that of an acquired event; of a call, until its predicate is
	// evaluated.
	Open float64
	// Return and Row are the additional costs of observing a call's return, and
	// of an event that becomes a row.
	Return, Row float64
	// Shut is that of an event that meets a shut gate.
	Shut float64
	// Wake is the cost of each opening of the gate.
	Wake float64
}

// Base is embedded by sources that load nothing, support no command and count
// nothing.
type Base struct{}

// Load implements Source.
func (Base) Load(context.Context, Options) error { return nil }

// Control implements Source.
func (Base) Control(_ context.Context, c Command) (Reply, error) { return Unsupported(c) }

// Stats implements Source.
func (Base) Stats() Stats { return Stats{} }

// Site is one place where something is attached or read.
type Site struct {
	Provider string  // uprobe, procfs, ...
	Function string  // or the file that is read
	Module   string  // base name of the ELF file
	Address  uint64  // file offset of the probed instruction; 0: none
	Behind   uint64  // offset of that from the function's entry, in bytes
	Method   string  // emulated, stepped, nop, iterator, procfs, replay
	Kind     string  // entry, entry+return (session), entry+exits (n), exit, ...; (perf): attached by a link of its own
	CostNs   float64 // estimated ns per event; 0: unknown
	// Estimated: CostNs was not measured on this machine, unlike other costs.
	Estimated bool
	Hits      uint64 // for sys.probes
	// Sources are the sources that share it (sys.probes).
	Sources []Source
}
