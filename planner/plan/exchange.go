package plan

import "time"

// Exchange describes what several hosts send to their root, and how the root
// combines it before it executes Fragment.Upper.
type Exchange struct {
	Kind  ExchangeKind
	Again Again
	// Pick are the columns of the hosts' rows that Upper reads, in the order of its
	// leaf's: of its Partial with MergeStates, else of its Out.
	Pick []int
	// Time is the column of the hosts' rows by which MergeOrdered orders.
	Time int
	// Start and End are the columns with the borders of a row's window, for PerWindow
	// and PerSession.
	Start, End int
	// Limit is the number of rows of the whole result; 0 is unlimited. It is set if no
	// node of Upper limits the rows.
	Limit int64
	// Gap and Spans describe the sessions of PerSession.
	Gap   time.Duration
	Spans Spans
	// Nothing is set if the host cannot have rows and does not even know their types.
	Nothing bool
	// Notices about the statement, for the user.
	Notices []string
}

// ExchangeKind is how the rows of several hosts are combined into one input.
type ExchangeKind uint8

// Kinds of exchange.
const (
	Gather       ExchangeKind = iota // rows, in any order
	MergeOrdered                     // rows, in order of event time
	MergeStates                      // states of groups (Partial), which an aggregate merges
)

func (k ExchangeKind) String() string {
	return [...]string{"Gather", "MergeOrdered", "MergeStates"}[k]
}

// Again is how often the upper part produces a result.
type Again uint8

// The times of results. Each result is computed independently: Upper keeps nothing
// between two.
const (
	Once       Again = iota // when all hosts have ended
	PerWindow               // for each window, when no host has more rows of it
	PerSession              // for each session, when no host can have more rows of it
	PerRound                // EMIT EVERY: each time that every host has sent its totals
	PerChange               // EMIT CHANGES: when a group of a host has changed
)

// Spans are the columns, in the rows of hosts, that describe the pieces of
// sessions: the times of the first and the last row of a piece, how many of its
// rows count, and the values that sessions are partitioned by.
type Spans struct {
	First, Last, Count int
	Partition          int // the first of them
	Partitions         int // how many there are
}

// HostColumn is the column that names the host of a row.
const HostColumn = "host"

// HostLabel is the function that returns a label of the host of a row.
const HostLabel = "host_label"
