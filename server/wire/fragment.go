package wire

import (
	"context"
	"time"

	"endoscope/planner/types"
)

// Splitter is a session that may leave a part of a query to its client: the server
// says what, and sends it. What the client then does with its rows nobody relies on.
type Splitter interface {
	// ExecuteSplit is Execute for a client that executes fragments. path is the way
	// to it. The result may be a Fragmented.
	ExecuteSplit(ctx context.Context, path Path, statement string, args ...types.Value) (Result, error)
}

// Fragmented is a result of which the client executes a part: what Next gives is for
// the fragment. Fragment is nil if the result is as any other.
type Fragmented interface {
	Result
	Fragment() *Fragment
}

// FragmentVersion is that of Fragment.Plan: who has another one cannot execute it.
const FragmentVersion = 3

// Fragment is what a client executes of a query.
type Fragment struct {
	// Plan is a plan.Fragment as package planpb encodes it.
	Plan []byte `json:"plan"`
	// Running is for how long the query has run, ns.
	Running int64 `json:"running"`
	// Port is where the first rows are for.
	Port Port `json:"-"`
	// Columns are those of the result.
	Columns []Column `json:"columns"`
	// Measured says that what the fragment gives is not the result, which comes as
	// rows of PortResult: EXPLAIN ANALYZE.
	Measured bool `json:"measured,omitempty"`
	// Sections are the columns of the other ports' rows, by Port.
	Sections [Ports][]Column `json:"-"`
}

// Port is what rows are in a plan that is executed at two sites.
type Port uint8

// Ports of a fragment.
const (
	PortResult  Port = iota // of the result
	PortRows                // that Lower reads
	PortLowered             // that Upper reads
	PortStates              // of groups, which Upper's aggregate merges
	Ports       = iota
)

// Cue is what an operator of the fragment is told between rows.
type Cue struct {
	Kind    CueKind `json:"kind"`
	Time    int64   `json:"time,omitempty"` // of a watermark: event time; else ns since the query began
	Preview bool    `json:"preview,omitempty"`
}

// CueKind says what a Cue means: see operators.SignalKind.
type CueKind uint8

// Kinds of cue.
const (
	CueWatermark CueKind = iota
	CueTick
	CueFlush
	CueEnd // no signal: the last cue, with when the query ended
)

// Path is the way to a client.
type Path interface {
	// Link is what is known of it now.
	Link() Link
}

// Link is what a path can do.
type Link struct {
	RTT time.Duration // 0: not known, or nothing to speak of
	// Rate is how many bytes a second it carries; 0: not known, or as many as there
	// are.
	Rate float64
	// Limited says that Rate was seen while more was to be sent; else it is what the
	// connection would try.
	Limited bool
	// Send is what it costs this side to send a byte, ns of processor time; 0: not
	// known.
	Send float64
}
