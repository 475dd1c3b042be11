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
type Provider struct {
	cache    elf.Cache
	contexts Contexts
}

// New returns a provider. Nothing is loaded before a query needs it.
func New(c Contexts) *Provider { return &Provider{contexts: c} }

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
	t := table
	if spec.ReadsContext() {
		t = tableWith(spec.Out.Fields[spec.Out.Index(spec.Context.Name)])
	}
	if s.rows, err = t.Writer(spec, clock.Offset()); err != nil {
		return nil, err
	}
	var out probes.Source = s
	if spec.OnDemand {
		out = &demand{source: s}
	}
	if spec.ReadsContext() {
		if s.follower, err = p.contexts.FollowContext(spec, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}
