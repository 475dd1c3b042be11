package wire

import "time"

// StandingQuery is a query that outlives its client (CREATE QUERY).
type StandingQuery struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Author    string    `json:"author"`
	Statement string    `json:"statement"` // its SELECT
	Created   time.Time `json:"created"`
}

// StandingWindow is a result of a standing query: one window, or a revision of it.
type StandingWindow struct {
	Start    int64 `json:"start"`
	End      int64 `json:"end"`
	Revision int64 `json:"revision"`
	Final    bool  `json:"final"`
	// Upto: all windows that end here or before are final, with this one.
	Upto int64 `json:"upto"`
}

// StandingRecord is a stored result of a standing query.
type StandingRecord struct {
	Number uint64 // from 1
	Window StandingWindow
	Parts  [][]byte // its rows (bus.EncodeRows)
}

// StandingStored is where the stored results of a standing query end.
type StandingStored struct {
	Upto int64 // see StandingWindow
	// Open are the last stored results of windows that end later.
	Open []StandingWindow
}

// StandingState is how a standing query is doing.
type StandingState struct {
	State string // one of the constants
	Hosts string // which hosts its results cover
	Late  uint64 // groups that came too late, and rows that hosts had to drop
	Error string // why it waits
}

// States of a standing query.
const (
	StandingStarting = "starting"
	StandingRunning  = "running"
	StandingWaiting  = "waiting" // it could not be executed, and is tried again
	StandingStandby  = "standby" // another reducer keeps it
	StandingKept     = "stored"  // only its results are there
)

// StandingStore keeps standing queries and their results. It is safe for concurrent use.
type StandingStore interface {
	// Open opens the results of a query. It refuses a query whose name its author has
	// given to another one.
	Open(q StandingQuery) (StandingResults, error)
	// Drop removes a query with its results, if it is of this author.
	Drop(id, author string)
}

// StandingResults are the stored results of one query. Its methods are called by one
// goroutine at a time.
type StandingResults interface {
	// Begin says what the columns are. It refuses others than those that are stored.
	Begin(columns []Column) error
	// Stored returns where the stored results end; nil: nothing is stored.
	Stored() *StandingStored
	// Next returns the number of the next result.
	Next() uint64
	// Append stores a result. One that is stored already changes nothing.
	Append(r StandingRecord) error
	// Report says how the query is doing.
	Report(s StandingState)
}
