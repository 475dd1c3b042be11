package operators

import (
	"context"
	"io"

	"endoscope/planner/plan"
)

// Options are the options of a graph.
type Options struct {
	// Start is when the query was armed, ns since the epoch; RATE counts from it. If it is
	// not known yet, [graph.Graph.Armed] sets it.
	Start int64
	// Clock returns the time, ns since the epoch, for RATE; nil: this machine's clock.
	Clock func() int64
	// OpenFile opens the file of an INSERT; nil: os.Create.
	OpenFile func(path string) (io.WriteCloser, error)
	// Residual returns the part of a leaf's Filter that its source does not test and the
	// graph must; nil: all of it.
	Residual func(*plan.Acquire) plan.Expr
	// Stats makes the graph measure itself; it costs two clock readings per batch and node.
	Stats bool
	// MemoryLimit is the number of bytes of rows one operator may hold before the query
	// ends with an error; 0: DefaultMemoryLimit.
	MemoryLimit int64
	// Demand returns a function that makes a source push its current rows to its leaf
	// before it returns (plan.Acquire.OnDemand).
	Demand func(*plan.Acquire) func(context.Context) error
	// Tap returns the observer of the rows that arrive at a port of a join; nil: no
	// observers.
	Tap func(*plan.Join, int) *Tap
	// JoinMemory is the number of bytes of rows one join may hold before it drops the
	// oldest, which is counted; 0: DefaultJoinMemory.
	JoinMemory int64
	// EncoderBudget is the number of bytes one encoder may hold, over all groups. Beyond it
	// the encoder stops encoding, and its result reports that; 0: DefaultEncoderBudget.
	EncoderBudget int64
}

// DefaultMemoryLimit is the default of Options.MemoryLimit.
const DefaultMemoryLimit = 512 << 20
