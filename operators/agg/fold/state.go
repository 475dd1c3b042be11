package fold

import (
	"endoscope/operators/batch"
)

// Merger is an accumulator that merges states computed elsewhere.
type Merger interface {
	// Merge adds the states at in.Rows to their groups. state has the columns of
	// plan.StateFields; n is not 0 at these rows. The error reports bytes that
	// are not a state.
	Merge(in *Input, state []batch.Column) error
}

// Stater is an accumulator that can export the state of each group.
type Stater interface {
	// States appends one state for each group to out, the columns of
	// plan.StateFields.
	States(groups []uint32, out []batch.Column)
}
