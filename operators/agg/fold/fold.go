package fold

import (
	"endoscope/operators/batch"
)

// Accumulator is one aggregate function over all groups of a table: its state is
// in arrays indexed by group. It is called once per batch, not once per row.
type Accumulator interface {
	// Grow extends the state to groups 0 to n-1; those added are empty.
	Grow(n int)
	// Update folds rows into their groups.
	Update(in *Input)
	// Output appends the results of groups to out, which is empty.
	Output(groups []uint32, out *batch.Column, at Instant) error
	// Reset drops all groups and keeps the memory.
	Reset()
}

// Input is the rows that an accumulator folds in.
type Input struct {
	Rows   []uint16        // physical rows, ascending
	Groups []uint32        // by physical row; every entry is 0 if alone
	Alone  bool            // there is only group 0
	Arg    *batch.Column   // not NULL at rows; nil for COUNT(*) and RATE(*)
	More   []*batch.Column // the other arguments, which may be NULL
	Times  []int64         // event times by physical row; nil without a time column
	Words  []uint64        // scratch, by physical row
}

// Instant is the time at which a result is emitted.
type Instant struct {
	Elapsed int64 // ns since the query was armed, or the length of the window
	Preview bool  // others will follow
}
