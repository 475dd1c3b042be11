package stack

import (
	"cmp"
	"context"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// Provider samples stacks.
type Provider struct{ cache elf.Cache }

// New returns a provider. Nothing is loaded before a query needs it.
func New() *Provider { return &Provider{} }

// Streams returns the one stream of the provider.
func (p *Provider) Streams() []string { return []string{Stream} }

// Close releases the modules that were read.
func (p *Provider) Close() error { return p.cache.Close() }

// Prepare finds the processes and checks that they may be sampled.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	if err := cmp.Or(probes.RequireSampling(spec, "10ms"), probes.RequireProcess(spec)); err != nil {
		return nil, err
	}
	found, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, probes.AtStream(err, spec)
	}
	if err := needs.Check(spec); err != nil {
		return nil, err
	}
	s := &source{provider: p, every: spec.Every, filter: spec.Filter, target: spec.Target, found: found, clock: clock.Now, spec: spec}
	s.notices = notices(found, spec.Settings.JavaStacks)
	if !spec.Target.Grows() {
		s.pinned = found
	}
	if s.rows, err = table.Writer(spec, clock.Offset()); err != nil {
		return nil, err
	}
	if spec.OnDemand {
		return &demand{source: s}, nil
	}
	return s, nil
}
