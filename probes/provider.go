package probes

import (
	"context"

	"endoscope/planner/plan"
)

// Provider acquires some streams.
type Provider interface {
	// Streams returns the catalog names of its streams.
	Streams() []string
	// Prepare resolves a specification against the machine (processes,
	// functions, rights), and leaves nothing attached: at most it counts calls
	// for some milliseconds, to estimate the cost of Start. Refusals are
	// *plan.Error, located by the offsets in the specification.
	Prepare(ctx context.Context, spec *plan.Acquire) (Source, error)
	// Close frees what the provider keeps between queries.
	Close() error
}
