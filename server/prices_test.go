package server

import (
	"context"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/wire"
)

// priced is a source with one site that was measured and one that was not.
type priced struct{ aggregator }

func (p *priced) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	p.spec = spec
	return p, nil
}

func (p *priced) Info() probes.Info {
	i := p.aggregator.Info()
	i.Sites = []probes.Site{
		{Provider: "uprobe", Function: "f", Kind: "entry", Method: "emulated", CostNs: 543.2},
		{Provider: "uprobe", Function: "g", Kind: "entry", Method: "stepped", CostNs: 17_900, Estimated: true},
	}
	return i
}

// EXPLAIN gives the prices that the provider gives, and says which of them it
// only believes.
func TestExplainPrices(t *testing.T) {
	s := sessionOver(t, &aggregator{}, wire.Options{})
	s.e.providers["function_start"] = &priced{}
	got := lines(t, execute(t, s, "EXPLAIN "+countCalls))
	for _, want := range []string{
		"uprobe f: entry, emulated, about 543ns an event\n",
		"uprobe g: entry, stepped, about 17900ns an event (estimated)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
