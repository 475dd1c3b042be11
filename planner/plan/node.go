package plan

import (
	"time"

	"endoscope/planner/types"
)

// Node is an operator of the logical plan.
type Node interface {
	Schema() types.Schema
	Inputs() []Node
	// WithInputs is the same operator over other inputs.
	WithInputs([]Node) Node
	// Describe prints the operator itself, without inputs, on one line, as
	// EXPLAIN and the golden plans show it.
	Describe() string
	node()
}

// Results says of what type what functions return is.
type Results uint8

const (
	// RawResults are BIGINT, the register as it is.
	RawResults Results = iota
	// TypedResults are of the types that debug information says, as far as the
	// functions chosen have one.
	TypedResults
	// NamedResults are typed ones that the statement asks for by name: where none can
	// be read, it is refused.
	NamedResults
)

// Nodes.
type (
	// Acquire is the leaf: what has to be acquired from the outside. It is the
	// acquisition specification that goes to a probe provider.
	Acquire struct {
		Stream string // catalog name: function_start, cpu_usage, file, series, sys.queries ...
		Alias  string
		Out    types.Schema  // the columns to acquire, pruned; Out.Time is kept where the stream has one
		Every  time.Duration // SAMPLE's interval; 0: enumerable, or one snapshot of a sys stream
		// OnDemand leaves it to the join above when a value is acquired.
		OnDemand bool
		Args     []Const // file: path; series: n
		Target   Target  // which processes; the provider holds to it exactly
		// Select is the conjunction over function_name, class and module that
		// chooses functions; Cols index SelectColumns. nil: all functions. The
		// provider holds to it exactly: no filter above repeats it.
		Select Expr
		// Filter is what else is known to be needed, over Out's columns. A
		// provider may apply it where the event happens; Residual of its source
		// says what of it remains to be tested.
		Filter Expr
		// FilterOnly are the columns of Out, by index, that nothing but Filter
		// reads. A source need not fill those that its Residual does not read.
		FilterOnly []int
		// Partial is the first stage of the aggregate above, for sources that can
		// run it (probes.Info.Aggregates); nil: none.
		Partial *Partial
		// ByThread keeps the column thread_name in Out, read or not: rows of some
		// threads are not to be reported.
		ByThread bool
		// Serial numbers the acquisitions of a statement that have values of functions
		// among their columns, as it was resolved.
		Serial int
		// Results says of what type the column retval is.
		Results Results
		// Settings are the session's, filled in before a provider sees them.
		Settings Settings
		// Start and Stop place the stream in the statement, for errors.
		Start, Stop int
	}
	// Filter keeps the rows for which Cond is true.
	Filter struct {
		Input Node
		Cond  Expr
	}
	// Project computes Exprs; Out names them.
	Project struct {
		Input Node
		Exprs []Expr
		Out   types.Schema
	}
	// Window adds window_start and window_end as the last two columns. HOP
	// gives a row once for each window it lies in. With Hold it keeps rows
	// until their window closes and then gives them, followed by Flush; an
	// aggregate above does that itself.
	Window struct {
		Input Node
		Spec  WindowSpec
		Hold  bool
		Out   types.Schema
	}
	// Aggregate groups by Keys and computes Aggs; its output is the keys, then
	// the aggregates. With Windowed the keys WindowStart and WindowEnd (indexes
	// into Keys) are a window's borders: groups are given, with Flush, when
	// the watermark passes the window's end.
	Aggregate struct {
		Input     Node
		Keys      []Expr
		Aggs      []Agg
		Windowed  bool
		WindowEnd int // index into Keys, where Windowed
		Emit      Emit
		Out       types.Schema
	}
	// Distinct drops rows seen before: over the query's life, or (PerFlush)
	// within each emitted result.
	Distinct struct {
		Input    Node
		PerFlush bool
	}
	// Sort orders each emitted result: rows up to the next Flush or the end.
	// Limit > 0 keeps only the first Limit rows (top-n). With Emit.Mode Every
	// it gives everything so far each Emit.Every.
	Sort struct {
		Input Node
		Keys  []SortKey
		Limit int64 // 0: none
		Emit  Emit
	}
	// Limit passes N rows: in all, after which the query ends, or (PerFlush)
	// of each emitted result.
	Limit struct {
		Input    Node
		N        int64
		PerFlush bool
	}
	// Union merges its inputs, which have equal types, by time: rows come out
	// in order of Out.Time as far as the inputs' watermarks allow, unordered
	// where there is no time column.
	Union struct {
		Ins []Node
		Out types.Schema
	}
	// Insert writes rows to a file (.csv or .jsonl) and gives one row at the
	// end: rows BIGINT. With Append what the file has stays.
	Insert struct {
		Input  Node
		Path   string
		Append bool
	}
	// Values is a constant relation (SHOW, DESCRIBE, EXPLAIN). One that is Standing
	// is in the place of something live that cannot bring a row: results at intervals
	// go on over it.
	Values struct {
		Rows     [][]Const
		Out      types.Schema
		Standing bool
	}
)

// Settings are those values of SET that providers need.
type Settings struct {
	Lateness   time.Duration // how long a watermark waits for stragglers
	RateWindow time.Duration // what rates of /proc are taken over
	MaxProbes  int           // maximum number of functions instrumented at a time
	NoKernel   bool          // filters are left to the engine
	// MaxTextCopy is how many bytes of code probes may make the kernel copy; 0:
	// any number.
	MaxTextCopy int64
	// PlainEntries: functions are probed at their first instructions alone, not
	// where that is cheapest.
	PlainEntries bool
	// MaxEventRate is how many events a second an acquisition may bring to user
	// space, on average over a second or more; what is above it is counted as
	// lost. 0: any number.
	MaxEventRate int64
	// MaxOverhead is how much processor time the probes of many functions may
	// cost, at the rates of calls when they are to be attached: a share of the
	// processors that the target keeps busy, of one at least. 0: any, and it is
	// not estimated.
	MaxOverhead float64
	// Returns is how returns are observed.
	Returns ReturnProbes
	// AllProbed: also functions whose calls follow from those of others are
	// probed, where only numbers of calls are asked.
	AllProbed bool
	// Prompt wants events within a millisecond of when they happen, which costs
	// the program that they happen in.
	Prompt bool
	// JoinGated: an input of a window join may be acquired only while the other
	// one's condition holds, even if pairs are lost by it.
	JoinGated bool
	// JoinPlan is which input of window joins is acquired first: all, left or
	// right; auto or "": what costs least.
	JoinPlan string
	// ProbeLinks is how uprobes are attached: session, multi or perf; auto or
	// "": the best that the kernel has.
	ProbeLinks string
	// Unshared: the acquisition is the query's alone.
	Unshared bool
	// StackOverhead is how much of a CPU the sampling of stacks may cost, as a
	// share of one; 0: any. Where the rate that is asked would cost more, another
	// is taken.
	StackOverhead float64
	// StackBytes is how much of a thread's stack is copied with a call; 0: 8 KiB.
	StackBytes int
	// SystemModules are file names of modules, separated by commas, whose functions
	// on stacks are the system's; with - before them they are not.
	SystemModules string
	// JavaStacks is how the stacks of Java programs are read: off, threaddump or
	// perfmap.
	JavaStacks string
	// Handlers is how event handlers are told.
	Handlers HandlerSettings
	// HandlerMemory is how long ago, at least, a handler may have been seen that is
	// probed; 0: at any time.
	HandlerMemory time.Duration
	// MaxString is how many bytes a text of a program has at most; 0: the provider's
	// choice.
	MaxString int
}

// HandlerSettings are the numbers by which event handlers are found in samples
// of stacks (package handlers); shares and ratios lie between 0 and 1.
type HandlerSettings struct {
	MinSamples, MinChildSamples            uint64
	MinShare                               float64
	WaitRatio, WaitShare, IORatio, IOShare float64
	RunRatio, OutputRatio                  float64
}

// ReturnProbes is how the returns of functions are observed: by the kernel's
// return traps, which are cheap but allowed in code only that nothing unwinds
// or moves, or by probes at the instructions by which a function leaves.
type ReturnProbes uint8

// Ways to observe returns.
const (
	AutoReturns ReturnProbes = iota // traps where they are safe, else exits
	TrapReturns
	ExitReturns
)

// WindowKind is TUMBLE, HOP or SESSION.
type WindowKind uint8

// Kinds of window.
const (
	Tumble WindowKind = iota
	Hop
	Session
)

// WindowSpec says how rows fall into windows, by the column Time of the input.
// Tumble and Hop windows are aligned to the epoch (to 0).
type WindowSpec struct {
	Kind        WindowKind
	Size        time.Duration // Tumble, Hop
	Slide       time.Duration // Hop
	Gap         time.Duration // Session: a gap of at least this closes it
	PartitionBy []Expr        // Session
	Time        int           // index of the time column in the input
}

// EmitMode says when an unwindowed aggregate gives its result.
type EmitMode uint8

// Modes of EMIT.
const (
	Final   EmitMode = iota // once, at the end
	Changes                 // each changed group, as it changes
	Every                   // totals since the start, each Every and at the end
)

// Emit is an EMIT clause.
type Emit struct {
	Mode  EmitMode
	Every time.Duration
}

// SortKey is one key of ORDER BY. NULLs come last in ASC, first in DESC (as in
// PostgreSQL).
type SortKey struct {
	X    Expr
	Desc bool
}

// Target chooses processes. The zero Target is none. More than one entry means
// any of them.
type Target struct {
	PIDs      []int
	Processes []string // comm of the leader; includes processes that start later
	Exes      []string // paths; includes processes that start later
	Command   bool     // PIDs[0] is a command that the session holds until armed
	// Viewer is whose eyes it is seen with; nil: the engine's.
	Viewer *Viewer
	// Start and Stop place the predicate in the statement; 0,0 if the target is
	// the session's.
	Start, Stop int
}

// IsZero reports whether no target was given.
func (t Target) IsZero() bool {
	return len(t.PIDs) == 0 && len(t.Processes) == 0 && len(t.Exes) == 0
}

// Query is a whole plan.
type Query struct {
	Root    Node
	For     time.Duration // 0: no FOR
	Fired   []string      // names of the rewrite rules that fired, in order
	Notices []string      // for the user
}

// SelectColumns are what Acquire.Select ranges over.
var SelectColumns = []string{"function_name", "class", "module"}
