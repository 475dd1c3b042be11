package uprobe

import (
	"context"
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/program"
)

// FollowContext implements stack.Contexts. Samples happen between instructions, so nothing is
// attached in an order. Where a context has an end of its own, a sample is inside of it as
// long as the function runs that called the one that begins it: its caller is noted.
func (p *Provider) FollowContext(spec *plan.Acquire, owner probes.Source) (stack.Follower, error) {
	if err := errors.Join(refuseContext(spec), program.Needs.Check(spec)); err != nil {
		return nil, err
	}
	links, err := p.linksFor(spec)
	if err != nil {
		return nil, err
	}
	of := *spec
	of.Settings.MaxOverhead = 0 // a limit would end the context only
	f, err := p.prepareFollower(&of, links)
	if err != nil {
		return nil, err
	}
	if spec.Context.End != nil {
		f.wants.Options |= abi.SendCaller
	}
	f.owner = owner
	return &sampled{f}, nil
}

// sampled follows a context for samples of stacks.
type sampled struct{ *source }

// Inside implements stack.Follower.
func (s *sampled) Inside() map[string]*ebpf.Map { return s.contexts.Maps() }

// Start implements probes.Source.
func (s *sampled) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	return s.source.Start(ctx, contextSink{sink, s.spec.Follows.Name}, o)
}
