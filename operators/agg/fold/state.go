package fold

import (
	"endoscope/operators/batch"
)

// Merger is an accumulator that takes states computed elsewhere.
type Merger interface {
	// Merge adds the states at in.rows to their groups. state are the columns
	// that plan.StateFields gives the function; n is not 0 at these rows. An
	// error says that one of them is no state.
	Merge(in *Input, state []batch.Column) error
}

// Stater is an accumulator that gives its states, one for each group: the columns
// that plan.StateFields says.
type Stater interface {
	States(groups []uint32, out []batch.Column)
}
