package probes

import (
	"context"

	"endoscope/planner/plan"
)

// Provider acquires certain streams.
type Provider interface {
	// Streams are the catalog names that it serves.
	Streams() []string
	// Prepare resolves a specification against the machine (processes,
	// functions, rights), and leaves nothing attached: at most it has counted
	// calls for some milliseconds, to know what Start would cost. Refusals are
	// *plan.Error, placed by the offsets that the specification carries.
	Prepare(ctx context.Context, spec *plan.Acquire) (Source, error)
	// Close frees what the provider keeps between queries.
	Close() error
}
