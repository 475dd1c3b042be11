package wire

import (
	"context"

	"endoscope/planner/types"
)

// Sharer is a session that executes its share of a query over several hosts: it plans
// the text under its own catalog and policy, and sends what their root does with it.
type Sharer interface {
	// ExecuteShare is Execute for the root of several hosts, to which this one is known
	// by the name host. Info has a Share if the statement is a query that several
	// hosts execute together; else the result is as any other.
	ExecuteShare(ctx context.Context, host, statement string, args ...types.Value) (Result, error)
}

// ShareVersion is that of Share.Plan: who has another one cannot execute it.
const ShareVersion = 1

// Share is what the root of several hosts does with their rows.
type Share struct {
	// Plan is a plan.Fragment with an Exchange, as package planpb encodes it.
	Plan []byte `json:"plan"`
	// Columns are those of the whole result.
	Columns []Column `json:"columns"`
	// Running is for how long the query has run, ns.
	Running int64 `json:"running"`
}
