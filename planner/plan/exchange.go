package plan

import "time"

// Exchange says what several hosts send to their root, and how the root puts it
// together before it executes Fragment.Upper.
type Exchange struct {
	Kind  ExchangeKind
	Again Again
	// Pick are the columns of the hosts' rows that Upper reads, in the order of its
	// leaf's: of its Partial with MergeStates, else of its Out.
	Pick []int
	// Time is the column of the hosts' rows by which MergeOrdered goes.
	Time int
	// Start and End are the columns with the borders of the window of which a row is,
	// with PerWindow and PerSession.
	Start, End int
	// Limit is how many rows the whole result has; 0: any number. It is set where no
	// node of Upper says it.
	Limit int64
	// Gap and Spans describe the sessions of PerSession.
	Gap   time.Duration
	Spans Spans
	// Nothing says that the host knows that it has no rows: not even their types.
	Nothing bool
	// Notices are about the statement, for the user.
	Notices []string
}

// ExchangeKind is how the rows of several hosts become one input.
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

// Again is how often the upper part has a result.
type Again uint8

// When there is a result. Each is computed on its own: Upper keeps nothing between two.
const (
	Once       Again = iota // when all hosts are through
	PerWindow               // for each window, when no host has more of it
	PerSession              // for each session, when no host can have more of it
	PerRound                // EMIT EVERY: when each host has sent its totals once more
	PerChange               // EMIT CHANGES: when a group of a host has changed
)

// Spans are the columns, in the rows of hosts, of the pieces of which the root makes
// sessions: when the first and the last row of a piece was, how many of its rows count,
// and what sessions are partitioned by.
type Spans struct {
	First, Last, Count int
	Partition          int // the first of them
	Partitions         int // how many there are
}

// HostColumn is the column that names the host of a row.
const HostColumn = "host"
