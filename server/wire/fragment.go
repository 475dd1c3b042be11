package wire

import (
	"context"
	"time"

	"endoscope/planner/types"
)

// Splitter is a session that may leave part of a query to its client. The server
// determines that part and sends it as a Fragment. Correctness and access control at
// the server do not depend on what the client does with the rows.
type Splitter interface {
	// ExecuteSplit is Execute for a client that executes fragments. path is the
	// network path to it. Info may have a Fragment.
	ExecuteSplit(ctx context.Context, path Path, statement string, args ...types.Value) (Result, error)
}

// FragmentVersion is that of Fragment.Plan: who has another one cannot execute it.
const FragmentVersion = 3

// Fragment is the part of a query that the client executes.
type Fragment struct {
	// Plan is a plan.Fragment as package planpb encodes it.
	Plan []byte `json:"plan"`
	// Running is how long the query has been running, in ns.
	Running int64 `json:"running"`
	// Port is the destination of the first rows.
	Port Port `json:"-"`
	// Columns are the columns of the result.
	Columns []Column `json:"columns"`
	// Measured: the fragment's output is not the result (EXPLAIN ANALYZE). The result
	// arrives as rows of PortResult.
	Measured bool `json:"measured,omitempty"`
	// Sections are the columns of the other ports' rows, indexed by Port.
	Sections [Ports][]Column `json:"-"`
}

// Port is the destination of rows in a plan that is executed at two sites.
type Port uint8

// Ports of a fragment.
const (
	PortResult  Port = iota // rows of the result
	PortRows                // input of Lower
	PortLowered             // input of Upper
	PortStates              // group states, merged by Upper's aggregate
	Ports       = iota
)

// Cue is a signal for the operators of the fragment, ordered with the rows.
type Cue struct {
	Kind    CueKind `json:"kind"`
	Time    int64   `json:"time,omitempty"` // watermark: event time; else ns since the query began
	Preview bool    `json:"preview,omitempty"`
}

// CueKind is the meaning of a Cue; see operators.SignalKind.
type CueKind uint8

// Kinds of cue.
const (
	CueWatermark CueKind = iota
	CueTick
	CueFlush
	CueEnd // not a signal: the last cue, with the time at which the query ended
)

// Path is the network path to a client.
type Path interface {
	// Link returns the current measurements.
	Link() Link
}

// Link describes a network path.
type Link struct {
	RTT time.Duration // 0: unknown or negligible
	// Rate is the throughput in bytes per second; 0: unknown or unlimited.
	Rate float64
	// Limited: Rate was measured while data was waiting to be sent. Otherwise it is
	// the connection's estimate.
	Limited bool
	// Send is this side's cost of sending one byte, in ns of CPU time; 0: unknown.
	Send float64
}
