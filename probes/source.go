package probes

import (
	"context"

	"endoscope/planner/plan"
)

// Source is one prepared acquisition. Every source has the same methods; what it
// can do beyond Start and Stop is said by its Info, and never found out by a type
// assertion.
//
// A source is prepared, perhaps loaded, started and stopped, in this order. Load
// and Start are called at most once. A command that the source supports has no
// effect before Start (but Suspend, which is remembered) and once the source has
// ended.
type Source interface {
	// Info describes the source. All of it is known from Prepare on; Sites may
	// change while the source runs. It may be called at any time, but it is not
	// cheap: it lists every site.
	Info() Info
	// Load does ahead of Start what takes long, for those who want Start to be
	// quick. It attaches nothing, and may do nothing. Stop undoes it if Start never
	// comes.
	Load(ctx context.Context, o Options) error
	// Start arms the acquisition and returns when it is armed: from then on
	// every event is given to sink or counted. After Load it is called with the
	// same options.
	Start(ctx context.Context, sink Sink, o Options) error
	// Control executes a command. The error is ErrUnsupported exactly if
	// Info().Supports(c) is false.
	Control(ctx context.Context, c Command) (Reply, error)
	// Stats is what the source has done so far. Safe to call at any time, but not
	// from the sink's methods.
	Stats() Stats
	// Stop disarms, gives what is still under way (events that happened before
	// the call) to the sink, and ends the stream with sink.End. It returns
	// when nothing is attached any more. Safe to call twice.
	Stop() error
}

// Info describes a source.
type Info struct {
	// Sites are the places where something is attached or read, for EXPLAIN and
	// sys.probes.
	Sites []Site
	// Notices are for the user: functions skipped and why, and the like.
	Notices []string
	// Refusal is why Start will refuse because of the estimated cost; nil if it
	// will not. EXPLAIN shows the estimate all the same.
	Refusal error
	// Residual is what remains to be tested of spec.Filter: all of it if the
	// source applies none, nil if it applies all.
	Residual plan.Expr
	// Live: events happen whether or not anybody is ready for them. The engine
	// drops and counts instead of making the source wait.
	Live bool
	// Identity is equal for the sources of two equal specifications only if they
	// would do the same: attach to the same places of the same files, and observe
	// the same processes. The source can then be shared, and supports Divide and
	// CountUnfinished. "": it cannot be shared.
	Identity string
	// Aggregates: the source runs the first stage of an aggregate (spec.Partial)
	// where events happen, and supports Collect. Events then reach the sink as
	// partial rows, and singly where they could not be aggregated (Sink.Push); both
	// count for watermarks. Aggregation says how, for EXPLAIN: "dense by function",
	// "hash by tid, 32768 groups".
	Aggregates  bool
	Aggregation string
	// OnDemand: the source gives its value only when it is asked by Sample
	// (spec.OnDemand), and costs little or nothing in between.
	OnDemand bool
	// Suspends: the source supports Suspend, since it is tracked whether or not it
	// is reported (plan.Tracked).
	Suspends bool
	// Resends: the source's rows build on each other. It supports Resend for those
	// who have missed some.
	Resends bool
	// Gateable: the source can be kept shut by a gate, or open gates of others,
	// as far as Ability says (EndoScope, section 5.3).
	Gateable bool
	Ability  plan.Ability
	// Detaches: the source can do without its probes while its gate is shut for
	// long, and supports Detach, Attach and ProcessorTime. A shut gate costs each
	// call a trap, no probe costs nothing.
	Detaches bool
	// Standby: the source can be attached before it is wanted (Options.Standby) and
	// supports Begin. WaitNs is what it then costs the program that makes a call, in
	// ns, until Begin.
	Standby bool
	WaitNs  float64
}

// Options are what a source must know before it loads anything.
type Options struct {
	// Gates are those that the source passes and opens. From Start on, it acquires
	// only what passes its gate; its watermark advances all the same. Only sources
	// that are Gateable are given any.
	Gates Gates
	// Standby has Start attach everything and give nothing: events that begin
	// before Begin are as those before Start are otherwise, but for what they cost.
	// To begin then takes microseconds. To attach takes the kernel milliseconds,
	// since it waits until no processor is in a section that reads what is changed.
	Standby bool
	// Required says of which functions calls are given even while the source is
	// suspended; nil: of none.
	Required func(function string) bool
}

// Stats counts what a source has done since Start, and what that costs.
type Stats struct {
	Activity
	// Prices are what its events cost now, by how its gate is shut.
	Prices [plan.Asleep + 1]Price
	// Waited is how many calls were ignored because the source stood by or its gate
	// was shut.
	Waited uint64
}

// Activity counts monotonically.
type Activity struct {
	Events uint64 // calls, or times at which a sampler was due
	Shut   uint64 // those of them that met a closed gate
	// Awaited are the calls whose return was awaited.
	Awaited uint64
}

// Price is what an event costs, in ns of the machine's time.
type Price struct {
	// Open is of one that is acquired: of a call, until it is known whether it is
	// wanted.
	Open float64
	// Return and Row are what it costs more to await a call's return, and for an
	// event to become a row.
	Return, Row float64
	// Shut is of one that meets a shut gate.
	Shut float64
	// Wake is of each time that the gate opens.
	Wake float64
}

// Base is embedded by sources with nothing to load, to control and to count.
type Base struct{}

// Load does nothing.
func (Base) Load(context.Context, Options) error { return nil }

// Control supports no command.
func (Base) Control(_ context.Context, c Command) (Reply, error) { return Unsupported(c) }

// Stats has nothing to count.
func (Base) Stats() Stats { return Stats{} }

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
