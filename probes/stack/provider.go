package stack

import (
	"context"
	"errors"

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
	if spec.Every <= 0 && !spec.OnDemand {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s has a value at every instant and cannot be read tuple by tuple", Stream).
			WithHint("SAMPLE(%s, 10ms)", Stream)
	}
	if spec.Target.IsZero() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s needs a process", Stream).
			WithHint("WHERE pid = ..., WHERE process = '...', or USE ...")
	}
	found, err := process.Resolve(spec.Target)
	if err != nil {
		return nil, placed(err, spec)
	}
	if err := needs.Check(spec); err != nil {
		return nil, err
	}
	s := &source{provider: p, every: spec.Every, filter: spec.Filter, target: spec.Target, found: found, clock: clock.Now, spec: spec}
	s.notices = notices(found, spec.Settings.JavaStacks)
	if len(spec.Target.Processes)+len(spec.Target.Exes) == 0 {
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

// placed sets an error's position to that of the stream, if it has none.
func placed(err error, spec *plan.Acquire) error {
	var e *plan.Error
	if errors.As(err, &e) && e.Start < 0 {
		c := *e
		c.Start, c.Stop = spec.Start, spec.Stop
		return &c
	}
	return err
}
