package replay

import (
	"context"

	"endoscope/planner/plan"
	"endoscope/probes"
)

// Provider replays files and generates series.
type Provider struct{}

// New returns a provider. It keeps nothing between queries.
func New() *Provider { return &Provider{} }

// Streams implements probes.Provider.
func (*Provider) Streams() []string { return []string{"file", "series"} }

// Close implements probes.Provider; there is nothing to free.
func (*Provider) Close() error { return nil }

// Prepare examines the file, or the length of the series.
func (*Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	switch spec.Stream {
	case "series":
		return prepareSeries(spec)
	case "file":
		s, err := prepareFile(spec)
		if err != nil {
			return nil, probes.AtStream(err, spec)
		}
		return s, nil
	}
	return nil, plan.Errorf(spec.Start, spec.Stop, "%s cannot be replayed", spec.Stream)
}
