package fold

import (
	"endoscope/operators/batch"
)

// Accumulator is one aggregate function over all groups of a table: its state
// lies in arrays indexed by group. It is called once a batch, not once a row.
type Accumulator interface {
	// Grow makes room for groups 0 to n-1; those added are empty.
	Grow(n int)
	// Update folds rows into their groups.
	Update(in *Input)
	// Output makes out, which is empty, the results of groups.
	Output(groups []uint32, out *batch.Column, at Instant) error
	// Reset forgets all groups and keeps the memory.
	Reset()
}

// Input is what an accumulator is to fold in.
type Input struct {
	Rows   []uint16        // physical rows, ascending
	Groups []uint32        // by physical row; every entry is 0 if alone
	Alone  bool            // there is only group 0
	Arg    *batch.Column   // not NULL at rows; nil for COUNT(*) and RATE(*)
	More   []*batch.Column // the other arguments, which may be NULL
	Times  []int64         // event times by physical row; nil without a time column
	Words  []uint64        // scratch, by physical row
}

// Instant is when a result is given.
type Instant struct {
	Elapsed int64 // ns since the query was armed, or the length of the window
	Preview bool  // others will follow
}
