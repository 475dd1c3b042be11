package sched

import (
	"context"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/rights"
)

var needs = rights.Needs{Since: "5.15", Instead: "process_usage, thread_usage"}

// Provider observes lifecycle events of processes and threads.
type Provider struct{ guessLast bool }

// New returns a provider. Nothing is loaded before a query needs it, and
// nothing is kept between queries.
func New() *Provider { return &Provider{} }

// Streams implements probes.Provider.
func (*Provider) Streams() []string {
	return []string{ProcessStart, ProcessExec, ProcessEnd, ThreadStart, ThreadEnd}
}

// Close implements probes.Provider; there is nothing to free.
func (*Provider) Close() error { return nil }

// Prepare loads the programs, so that errors of the kernel come before anything
// is attached.
func (p *Provider) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	w, err := tableOf(spec.Stream).Writer(spec, clock.Offset())
	if err != nil {
		return nil, err
	}
	if err := needs.Check(spec); err != nil {
		return nil, err
	}
	if !spec.Target.Viewer.Everything() {
		return nil, plan.Errorf(spec.Start, spec.Stop, "%s reports all processes of the machine: it requires the right to observe all of them", spec.Stream).
			WithHint("process_usage and thread_usage show those that you may observe")
	}
	s := &source{spec: spec, targets: newTargets(spec), event: events[spec.Stream], rows: w}
	o := options{
		events:    s.event | s.targets.needs(),
		path:      spec.Out.Index("exe") >= 0 || len(spec.Target.Exes) > 0,
		argv:      spec.Out.Index("argv") >= 0,
		guessLast: p.guessLast,
	}
	if s.kernel, err = load(o); err != nil {
		return nil, probes.AtStream(needs.Refused(spec.Stream, err), spec)
	}
	return s, nil
}
