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

// Options of a session: its first target and how it shows itself.
type Options struct {
	PID     int      // -p
	Process string   // --process
	Exe     string   // --exe
	Command []string // -- CMD ARGS...: started by the session, held until the first query is armed
	// Notify is told what the session's triggers have to say (NOTIFY 'text', and
	// why they failed), one line at a time. It must not block. nil: nobody is.
	Notify func(text string)
	Live   time.Duration // > 0: give a preview of a running EMIT FINAL result this often
	// Armed is called whenever something begins to be acquired for the session. It
	// must not block. nil: nobody is told.
	Armed func()
	// User is on whose behalf the session runs; nil: whoever the engine's process
	// runs as.
	User *User
	// Unread > 0 has live queries not wait for who reads their rows: those beyond
	// so many bytes that were not read are dropped, and counted. 0: they wait.
	Unread int64
	// Marks has results tell how far they are in time where no rows do: by events
	// of the kind Mark.
	Marks bool
}

// User is somebody who was identified.
type User struct {
	Name string
	Via  string // how: a token, a certificate, a user of the machine; for logs
}

// Session is one user's conversation: its target, settings and definitions.
// Statements may run concurrently.
type Session interface {
	// Execute runs one statement, without its final semicolon; args are the values
	// of $1, $2, ... in it. Refusals are *parser.Error. The result must be read to
	// io.EOF or closed.
	Execute(ctx context.Context, statement string, args ...types.Value) (Result, error)
	// Describe says what a statement would give, and refuses what Execute would
	// refuse of a query's text. Nothing is acquired.
	Describe(ctx context.Context, statement string) (Description, error)
	// Complete lists names for the REPL: kind is "stream", "column", "function",
	// "setting", "process", "model", "trigger"; for columns, of is the stream.
	Complete(ctx context.Context, kind, of, prefix string) []string
	// Info is for \conninfo: lines of text.
	Info() []string
	// Triggered gives the rows of the triggers that this session has made, since
	// it made them: timestamp, trigger, activation, action, row. It ends when all
	// of them have, and with follow only when it is stopped, or the session is
	// closed. One at a time.
	Triggered(follow bool) Result
	Close() error
}

// Identified is a session that knows which engine it is at: another address may lead to
// the same.
type Identified interface {
	// Engine is its name, "" if it is not known.
	Engine() string
}

// Description is what a statement would give.
type Description struct {
	Columns []Column // nil: it gives no rows
	Params  int      // how many values it needs
	// ParamTypes are the types that the values of $1, $2 ... take; Null where any
	// does. nil: they are not known.
	ParamTypes []types.Type `json:",omitempty"`
}

// Column is one column of a result.
type Column struct {
	Name string
	Type types.Type
}

// EventKind says what Result.Next gave.
type EventKind uint8

// What comes out of a result.
const (
	Rows    EventKind = iota // Batch has rows; the caller releases it
	Flush                    // an emitted result (window, EVERY interval) is complete
	Preview                  // as Flush, for rows that are only a look at a running total
	Notice                   // Text is for the user
	Mark                     // time has passed (Options.Marks): nothing but Event.Mark is new
	Cued                     // Cue is for the fragment of a Fragmented
)

// Event is one step of a result.
type Event struct {
	Kind  EventKind
	Batch *batch.Batch
	Text  string
	// Preview: set on Rows too, when they belong to a preview.
	Preview bool
	// Row is how many rows the query gave before these, with those that were
	// dropped because nobody read them (Options.Unread); with io.EOF, in all. 0
	// where none are ever dropped.
	Row uint64
	// Mark > 0: with this event all rows with a time before it have been given, or
	// dropped, ns since 1970. 0 where that is not known.
	Mark int64
	// Port and Cue are of the results that are Fragmented.
	Port Port
	Cue  Cue
}

// Result is a statement's answer, perhaps never-ending.
type Result interface {
	// Columns is nil for statements without rows; Message then says what was
	// done (CREATE STREAM, SET, ...).
	Columns() []Column
	Message() string
	// Next waits for the next event. It gives io.EOF at the end and the
	// query's error if it failed.
	Next(ctx context.Context) (Event, error)
	// Stop asks the query to end and give what it has (Ctrl-C): events follow
	// until io.EOF. Safe to call from another goroutine.
	Stop()
	// Close abandons the query and returns when nothing of it is attached.
	Close() error
	// Summary is what holds until now, and after io.EOF the result's footer. Safe
	// to call from another goroutine.
	Summary() Summary
}

// Summary is a result's footer.
type Summary struct {
	Rows    uint64
	Elapsed time.Duration
	Losses  []Loss   // empty: complete
	Counts  []Loss   // worth a line, but no loss
	Notes   []string // what else is worth saying
}

// Loss is a number of events that did not become rows, and why.
type Loss struct {
	Cause string
	N     uint64
}
