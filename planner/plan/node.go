package plan

import (
	"time"

	"endoscope/planner/types"
)

// Node is an operator of the logical plan.
type Node interface {
	Schema() types.Schema
	Inputs() []Node
	// WithInputs returns the same operator over other inputs.
	WithInputs([]Node) Node
	// Describe returns the operator without inputs as one line, as in EXPLAIN and the
	// golden plans.
	Describe() string
	node()
}

// Results selects the type of function results.
type Results uint8

const (
	// RawResults are BIGINT, the unchanged register.
	RawResults Results = iota
	// TypedResults have the types from debug information, if the selected functions have
	// one type.
	TypedResults
	// NamedResults are typed results that the statement refers to by name: it is rejected
	// if they cannot be read.
	NamedResults
)

// Nodes.
type (
	// Acquire is the leaf: rows acquired from outside. It is the acquisition
	// specification sent to a probe provider.
	Acquire struct {
		Stream string // catalog name: function_start, cpu_usage, file, series, sys.queries ...
		Alias  string
		Out    types.Schema  // the columns to acquire, pruned; Out.Time is kept where the stream has one
		Every  time.Duration // SAMPLE's interval; 0: enumerable, or one snapshot of a sys stream
		// OnDemand: the join above decides when a value is acquired.
		OnDemand bool
		Args     []Const // file: path; series: n
		Target   Target  // which processes; the provider applies it exactly
		// Select is the conjunction over function_name, class and module that selects
		// functions; Cols index SelectColumns. nil: all functions. The provider applies it
		// exactly: no filter above repeats it.
		Select Expr
		// Filter is a known necessary condition over Out's columns. A provider may apply it
		// where the event happens; Residual of its source is the part that remains to be
		// tested.
		Filter Expr
		// FilterOnly are the columns of Out, by index, that only Filter reads. A source
		// need not fill those that its Residual does not read.
		FilterOnly []int
		// Partial is the first stage of the aggregate above, for sources that can run it
		// (probes.Info.Aggregates); nil: none.
		Partial *Partial
		// Lines: the frames of stacks have their files and lines.
		Lines bool
		// Whole: stacks have no frames of calls inlined into functions of C, C++ and Rust.
		Whole bool
		// ByThread keeps the column thread_name in Out, read or not, because reporting may
		// be suspended for some threads.
		ByThread bool
		// Serial numbers the acquisitions of a statement that have function values among
		// their columns, in the order of resolution.
		Serial int
		// Results selects the type of the column retval.
		Results Results
		// Context is what a column of Out tells; nil: there is no such column.
		Context *Context
		// Follows is the context of which the acquisition follows the functions that begin and
		// end it, of the stream function_call; nil: it follows none. Out has the key.
		Follows *Context
		// Budget limits what the acquisition may cost; nil: everything is observed.
		Budget *Budget
		// Settings are the session's, filled in before a provider receives them.
		Settings Settings
		// Start and Stop are the position of the stream in the statement, for errors.
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
	// Window adds window_start and window_end as the last two columns. HOP emits a row once
	// for each window that contains it. With Hold it keeps rows until their window closes
	// and then emits them, followed by Flush; an aggregate above does that itself.
	Window struct {
		Input Node
		Spec  WindowSpec
		Hold  bool
		Out   types.Schema
	}
	// Aggregate groups by Keys and computes Aggs; its output is the keys, then the
	// aggregates. With Windowed the keys WindowStart and WindowEnd (indexes into Keys) are
	// a window's borders: groups are emitted, with Flush, when the watermark passes the
	// window's end. With States it emits the states of the groups ([Partial.Out]) instead
	// of their results, for another aggregate to merge. States are cumulative. With
	// Confidence above 0 the source has a budget, and each aggregate has EstimateColumns
	// columns: an estimate and its interval of that confidence. So has each of Derived after
	// them: expressions over the aggregates, whose columns are indexes into Aggs. With
	// Precision above 0 the query ends when all results are known with at most that relative
	// error.
	Aggregate struct {
		Input      Node
		Keys       []Expr
		Aggs       []Agg
		Windowed   bool
		WindowEnd  int // index into Keys, where Windowed
		Emit       Emit
		States     bool
		Confidence float64
		Precision  float64
		Derived    []Expr
		Out        types.Schema
	}
	// Distinct drops rows seen before: over the query's life, or (PerFlush)
	// within each emitted result.
	Distinct struct {
		Input    Node
		PerFlush bool
	}
	// Sort orders each emitted result: rows up to the next Flush or the end. Limit > 0
	// keeps only the first Limit rows (top-n). With Emit.Mode Every it emits all rows so
	// far each Emit.Every.
	Sort struct {
		Input Node
		Keys  []SortKey
		Limit int64 // 0: none
		Emit  Emit
	}
	// Limit passes N rows after the first Skip: in total, after which the query ends, or
	// (PerFlush) of each emitted result.
	Limit struct {
		Input    Node
		N, Skip  int64
		PerFlush bool
	}
	// Union merges its inputs, which have equal types, by time: rows are emitted in order
	// of Out.Time as far as the inputs' watermarks allow, unordered if there is no time
	// column.
	Union struct {
		Ins []Node
		Out types.Schema
	}
	// Insert writes rows to a file (.csv or .jsonl) and emits one row at the end: rows
	// BIGINT. With Append the existing content is kept.
	Insert struct {
		Input  Node
		Path   string
		Append bool
	}
	// Values is a constant relation (SHOW, DESCRIBE, EXPLAIN). One that is Standing
	// replaces a live source that can emit no row: results at intervals continue over it.
	Values struct {
		Rows     [][]Const
		Out      types.Schema
		Standing bool
	}
)

// Context is what the thread, goroutine or coroutine of an event is inside of (CREATE
// CONTEXT). Its column has its name; the column's value is the key.
type Context struct {
	Name string
	// Begin selects the functions that begin it, at their start or their end. Its only
	// column is the key.
	Begin *Acquire
	// End selects those that end it; nil: it ends with the call that began it.
	End *Acquire
}

// ReadsContext reports whether a column tells what the rows are inside of.
func (a *Acquire) ReadsContext() bool {
	return a.Context != nil && a.Out.Index(a.Context.Name) >= 0
}

// Settings are the values of SET that providers need.
type Settings struct {
	Lateness   time.Duration // how long a watermark waits for late rows
	RateWindow time.Duration // interval over which rates of /proc are computed
	MaxProbes  int           // maximum number of instrumented functions
	NoKernel   bool          // filters are left to the engine
	// MaxTextCopy limits the bytes of code that probes may make the kernel copy; 0: no
	// limit.
	MaxTextCopy int64
	// PlainEntries: functions are probed at their first instructions only, not where that
	// is cheapest.
	PlainEntries bool
	// MaxEventRate limits the events per second that an acquisition may send to user space,
	// on average over a second or more; events above it are counted as lost. 0: no limit.
	MaxEventRate int64
	// MaxOverhead limits the processor time that the probes may cost while they are
	// attached, and that those of many functions may cost at the call rates before: a share
	// of the processors that the target keeps busy, at least one. 0: no limit and no
	// estimate.
	MaxOverhead float64
	// Returns selects how returns are observed.
	Returns ReturnProbes
	// AllProbed: functions whose calls follow from those of others are probed too, even if
	// only numbers of calls are needed.
	AllProbed bool
	// Prompt delivers events within a millisecond, at a cost to the observed program.
	Prompt bool
	// JoinGated: an input of a window join may be acquired only while the other one's
	// condition holds, even if pairs are lost.
	JoinGated bool
	// JoinPlan selects the input of window joins that is acquired first: all, left or
	// right; auto or "": the cheapest.
	JoinPlan string
	// ProbeLinks selects how uprobes are attached: session, multi or perf; auto or "": the
	// best that the kernel supports.
	ProbeLinks string
	// Recall is how far back a trigger recalls the events, which are recorded in memory
	// until then; 0: they become rows as they happen.
	Recall time.Duration
	// Unshared: the acquisition is not shared with other queries.
	Unshared bool
	// OverheadDrain is how long calls seen in a slice may take to end.
	OverheadDrain time.Duration
	// StackOverhead limits the cost of sampling stacks, as a share of one CPU; 0: no limit.
	// If the requested rate would cost more, the rate is reduced.
	StackOverhead float64
	// StackBytes is the number of bytes of a thread's stack copied with a call; 0: 8 KiB.
	StackBytes int
	// SystemModules are file names of modules, separated by commas, whose functions on
	// stacks count as the system's; with a leading - they do not.
	SystemModules string
	// JavaStacks selects how the stacks of Java programs are read: off, threaddump or
	// perfmap.
	JavaStacks string
	// PythonLines: where an interpreter reports entries of functions only while it traces
	// lines, it may be made to.
	PythonLines bool
	// Handlers are the parameters for finding event handlers.
	Handlers HandlerSettings
	// DebugDirectory lists directories of debug files, separated by colons, that are
	// searched before the distribution's.
	DebugDirectory string
	// DebugServers lists the URLs of debuginfod servers, separated by spaces, from which
	// debug files that are not found are fetched.
	DebugServers string
	// HandlerMemory is the maximum age of the last observation of a handler that is probed;
	// 0: no maximum.
	HandlerMemory time.Duration
	// MaxString is the maximum number of bytes of a text of a program; 0: the provider's
	// default.
	MaxString int
	// AbsentNull: values in memory that is not present are NULL. Otherwise the thread whose
	// call is observed waits for them.
	AbsentNull bool
}

// HandlerSettings are the parameters for finding event handlers in samples of stacks
// (package handlers); shares and ratios are between 0 and 1.
type HandlerSettings struct {
	MinSamples, MinChildSamples            uint64
	MinShare                               float64
	WaitRatio, WaitShare, IORatio, IOShare float64
	RunRatio, OutputRatio                  float64
}

// ReturnProbes selects how the returns of functions are observed: by the kernel's return
// traps, which are cheap but safe only in code that nothing unwinds or moves, or by probes
// at the exit instructions of a function.
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

// WindowSpec defines the windows of rows, by the column Time of the input. Tumble and Hop
// windows are aligned to the epoch (to 0).
type WindowSpec struct {
	Kind        WindowKind
	Size        time.Duration // Tumble, Hop
	Slide       time.Duration // Hop
	Gap         time.Duration // Session: a gap of at least this closes it
	PartitionBy []Expr        // Session
	Time        int           // index of the time column in the input
}

// EmitMode selects when an unwindowed aggregate emits its result.
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

// Target selects processes. The zero Target is none. With several entries, a process must
// match one of them.
type Target struct {
	PIDs      []int
	Processes []string // comm of the leader; includes processes that start later
	Exes      []string // paths; includes processes that start later
	// Containers choose the processes of containers, those that start later included.
	Containers []ContainerIs
	// Files are programs and libraries, by path or by the name that the loader searches:
	// every process that executes their code is observed, those that start later included.
	// There are no other entries then.
	Files []string
	// Matching is a condition on the column that By names, column 0: exe or process for
	// Exes, module for Files. The planner replaces it by those that satisfy it.
	Matching Expr
	By       string
	// Found says that a pattern chose the Exes: it is no error if one of them is gone.
	Found   bool
	Command bool // PIDs[0] is a command that the session holds stopped until the query is armed
	// Follow includes the descendants of these processes.
	Follow bool
	// Viewer restricts which processes are observed; nil: the engine's own permissions.
	Viewer *Viewer
	// Start and Stop are the position of the predicate in the statement; 0,0 if the target
	// is the session's.
	Start, Stop int
}

// ContainerIs is a condition on the container of a process: a column of containers (package
// container) has a value.
type ContainerIs struct{ Column, Value string }

// IsZero reports whether no target was given.
func (t Target) IsZero() bool {
	return len(t.PIDs) == 0 && !t.Grows() && len(t.Files) == 0 && t.Matching == nil
}

// Grows reports whether processes that start later may belong to the target by what they are.
func (t Target) Grows() bool { return len(t.Processes)+len(t.Exes)+len(t.Containers) > 0 }

// Query is a whole plan.
type Query struct {
	Root    Node
	For     time.Duration // 0: no FOR
	Fired   []string      // names of the rewrite rules that fired, in order
	Notices []string      // for the user
}

// SelectColumns are the columns that Acquire.Select refers to.
var SelectColumns = []string{"function_name", "class", "module"}
