package wire

import (
	"context"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Engine opens sessions.
type Engine interface {
	NewSession(ctx context.Context, o Options) (Session, error)
	Close() error
}

// Options of a session: its first target and how it delivers results.
type Options struct {
	PID     int      // -p
	Process string   // --process
	Exe     string   // --exe
	Command []string // -- CMD ARGS...: started by the session, stopped until the first query is armed
	// Started: PID is such a program, started by the client.
	Started bool
	// Notify is called with each message of the session's triggers (NOTIFY 'text',
	// and failures), one line at a time. It must not block. nil: messages are
	// discarded.
	Notify func(text string)
	Live   time.Duration // > 0: interval of previews of a running EMIT FINAL result
	// Armed is called whenever an acquisition starts for the session. It must not
	// block.
	Armed func()
	// User is the user on whose behalf the session runs; nil: the user of the
	// engine's process.
	User *User
	// Unread > 0: live queries do not wait for a slow reader. Rows beyond this many
	// unread bytes are dropped and counted. 0: queries wait.
	Unread int64
	// Marks: results report their progress in time by events of kind Mark when there
	// are no rows.
	Marks bool
	// Standing: ExecuteShare executes standing queries.
	Standing bool
	// Share: Describe describes a query as ExecuteShare executes it.
	Share bool
	// Labels are those of the host, for host_label().
	Labels map[string]string
}

// User is an identified user.
type User struct {
	Name string
	Via  string // identified by: a token, a certificate, a local user id; for logs
}

// Session is one user's session: its target, settings and definitions. Statements may
// run concurrently.
type Session interface {
	// Execute runs one statement, without its final semicolon; args are the values of
	// its parameters $1, $2, ... Refusals are *parser.Error. The result must be read
	// to io.EOF or closed.
	Execute(ctx context.Context, statement string, args ...types.Value) (Result, error)
	// Describe returns the shape of a statement's result, with the errors that
	// Execute would return for the text of a query. Nothing is acquired.
	Describe(ctx context.Context, statement string) (Description, error)
	// Complete returns completions for the REPL: kind is "stream", "column",
	// "function", "setting", "process", "model", "trigger", "export", "query" or "context"; for columns, of is the
	// stream.
	Complete(ctx context.Context, kind, of, prefix string) []string
	// Info returns the lines of \conninfo.
	Info() []string
	// Triggered returns the rows of the triggers that this session has created, since
	// their creation: timestamp, trigger, activation, action, row. It ends when all
	// of these triggers have ended; with follow it ends only when it is stopped or
	// the session is closed. Only one may be open at a time.
	Triggered(follow bool) Result
	Close() error
}

// Identified is a session that knows its engine's identity, since several addresses
// may lead to the same engine.
type Identified interface {
	// Engine returns the engine's identifier; "" if unknown.
	Engine() string
}

// Description is the shape of a statement's result.
type Description struct {
	Columns []Column // nil: the statement returns no rows
	Params  int      // number of parameters
	// ParamTypes are the types of the parameters $1, $2, ...; Null if any type is
	// accepted. nil: unknown.
	ParamTypes []types.Type `json:",omitempty"`
	// Merges, of the share of a query (Options.Share): the states of several hosts can be
	// merged into states before the root has them (plan.Fragment.Merges).
	Merges bool `json:",omitempty"`
}

// Column is one column of a result.
type Column struct {
	Name string
	Type types.Type
	// Bound says that it is a bound of an estimate.
	Bound types.Bound `json:",omitempty"`
}

// EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events.
const (
	Rows    EventKind = iota // Batch has rows; the caller releases it
	Flush                    // an emitted result (window, EVERY interval) is complete
	Preview                  // as Flush, for a preview of a running total
	Notice                   // Text is for the user
	Mark                     // time has passed (Options.Marks); only Event.Mark is set
	Cued                     // Cue is for the Fragment
)

// Event is one step of a result.
type Event struct {
	Kind  EventKind
	Batch *batch.Batch
	Text  string
	// Preview is set on Rows too, if they belong to a preview.
	Preview bool
	// Row is the number of rows of the query before these, including rows dropped
	// because they were not read (Options.Unread); with io.EOF, the total. 0 if rows
	// are never dropped.
	Row uint64
	// Mark > 0: all rows with an earlier time (ns since 1970) have been returned with
	// this event or before, or were dropped. 0: unknown.
	Mark int64
	// Round > 0, of a Flush, is the number of the result among those of its host, some of
	// which may be missing. 0: none is missing.
	Round uint64
	// Epoch, of a Flush of a reducer, changes when another reducer has taken over, which numbers
	// the results otherwise.
	Epoch uint64
	// Port and Cue are set for a Fragment.
	Port Port
	Cue  Cue
}

// Result is the result of a statement; it may be unbounded.
type Result interface {
	// Columns is nil for statements without rows. Message then reports what was done
	// (CREATE STREAM, SET, ...).
	Columns() []Column
	Message() string
	// Info returns what whoever executes the statement again, or executes a part of it,
	// has to know.
	Info() Info
	// Next waits for the next event. It returns io.EOF itself at the end, and the query's
	// error, which is [Broken] if it comes from elsewhere, if it failed.
	Next(ctx context.Context) (Event, error)
	// Stop asks the query to end and return what it has (Ctrl-C). Events follow until
	// io.EOF. It is safe for concurrent use.
	Stop()
	// Close abandons the query and returns when all its probes are detached.
	Close() error
	// Summary returns the footer so far; after io.EOF it is final. It is safe for
	// concurrent use.
	Summary() Summary
}

// Info describes how a result is made.
type Info struct {
	// Fragment is the part of the query that the client executes: the events of Next are
	// its input. nil: the client has nothing to execute.
	Fragment *Fragment
	// Share is set if the result is one host's share of a query over several: its rows are
	// those that Share.Plan describes.
	Share *Share
	// Run distinguishes this start of a host's share from others; "": they are not told apart.
	Run string
	// StartsOver reports that the statement, executed again, would return its first rows
	// again.
	StartsOver bool
	// Plan returns what EXPLAIN says of the operators, with what was measured so far. It can
	// be called at any time. nil: that is not known.
	Plan func() string
}

// Summary is a result's footer.
type Summary struct {
	Rows    uint64
	Elapsed time.Duration
	Losses  []Loss   // empty: complete
	Counts  []Loss   // worth reporting, but not losses
	Notes   []string // other remarks
	// Cost is the CPU time that probes and samples have cost so far: events as counted,
	// at the prices measured on the machine. 0: nothing, or unknown.
	Cost time.Duration `json:",omitempty"`
	// Overhead is what probes and engine have taken of the program's CPU time in the last
	// seconds, of a query WITHIN OVERHEAD. 0: it has none, or it is not known yet.
	Overhead float64 `json:",omitempty"`
	// Sample reports that the rows are those of a sample of the calls, of a query WITHIN OVERHEAD.
	Sample bool `json:",omitempty"`
	// Hosts are those of a result of several hosts, by name.
	Hosts []HostState `json:",omitempty"`
	// Arrived is when rows or a watermark of another host last arrived, which may be
	// before they are read. Zero: unknown.
	Arrived time.Time `json:"-"`
}

// HostState is what a result has of a host.
type HostState struct {
	Name  string `json:"name"`
	State string `json:"state"` // one of the constants
	// Why is why it has not answered, or since when it is silent.
	Why string `json:"why,omitempty"`
	// Heard is when it was last heard, of one that is late.
	Heard time.Time `json:"heard,omitzero"`
	// Gaps are its restarts, in what a reducer has merged.
	Gaps []HostGap `json:"gaps,omitempty"`
}

// HostGap is an interval of which nothing of a host is known, since it was restarted.
type HostGap struct {
	Run  string    `json:"run"` // the start that ended, as Info names it
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// States of a host.
const (
	HostAnswered = "answered" // everything that it has so far is in the result
	HostLate     = "late"     // it has sent nothing for some time, and may go on
	HostMissing  = "missing"  // it was never heard, refuses the statement, or is lost
)

// Loss is a number of events that did not become rows, and the cause.
type Loss struct {
	Cause string
	N     uint64
}
