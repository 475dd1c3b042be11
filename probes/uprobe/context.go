package uprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/codesite"
	"endoscope/probes/process"
	"endoscope/probes/stack"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// A source whose rows tell what they are inside of (CREATE CONTEXT) has a follower: a source
// of function_call for the functions that begin and end the context, whose programs send
// nothing and note the keys (probes/bpf/context.h). Those of the leader read them.
//
// Where both probe one instruction, the kernel runs the program attached last first. A
// context is to begin before the leader sees the call that begins it, and to end after the
// leader saw its end. So the follower's exits and landmarks are attached before the leader,
// and its entries after it, and both have the same sites in the functions that they share
// (resolve). Each leader has a follower of its own, for this order. It costs what the
// requests cost, not what the calls do.

// stage is which probes of the functions of a source are attached.
type stage uint8

const (
	allProbes stage = iota
	onlyExits
	onlyEntries
)

func (s stage) skips(exits bool) bool { return s == onlyExits && !exits || s == onlyEntries && exits }

// followedKey is the column of a follower that has the key; the first one is the time.
const followedKey = 1

// refuseContext refuses what cannot tell a context.
func refuseContext(spec *plan.Acquire) error {
	if !spec.ReadsContext() {
		return nil
	}
	refuse := func(hint, format string, args ...any) error {
		return &plan.InColumn{Column: spec.Context.Name, Err: plan.Errorf(spec.Start, spec.Stop, format, args...).WithHint("%s", hint)}
	}
	name := spec.Context.Name
	switch {
	case spec.Budget != nil:
		return refuse("leave out WITHIN OVERHEAD, or "+name, "%s is not known WITHIN OVERHEAD: every call that begins the context must be observed", name)
	case spec.Settings.Recall > 0:
		return refuse("MONITOR "+spec.Stream, "%s cannot be recalled", name)
	case len(spec.Target.Files) > 0:
		return refuse("add WHERE process = 'name'", "%s is not known where all processes are observed", name)
	case !attach.FeatureLoop.Has() || !attach.FeatureFindVMA.Has():
		return refuse("leave it out", "%s needs Linux %s or newer", name, attach.FeatureLoop.Since)
	}
	return nil
}

// addFollower prepares the source that follows the context of s.
func (p *Provider) addFollower(s *source) error {
	f, err := p.prepareFollower(s.spec, s.links)
	if err != nil {
		return err
	}
	f.leader, s.follower = s, f
	if err := agree(s.resolution, f.resolution); err != nil {
		return s.spec.Context.Refusal(err)
	}
	return nil
}

// prepareFollower prepares the source that follows the context of an acquisition.
func (p *Provider) prepareFollower(of *plan.Acquire, links attach.Kind) (*source, error) {
	c := of.Context
	spec := &plan.Acquire{
		Stream: catalog.FunctionCall, Target: of.Target, Select: calls.SelectMarked(c), Follows: c, Results: c.Begin.Results,
		Settings: of.Settings, Start: of.Start, Stop: of.Stop,
		Out: types.Schema{Fields: append([]types.Field{{Name: "timestamp", Type: types.Timestamp}}, c.Begin.Out.Fields...)},
	}
	spec.Settings.MaxString, spec.Settings.MaxEventRate, spec.Settings.Returns = calls.KeyBytes, 0, plan.ExitReturns
	cols, err := calls.ColumnsOf(spec, calls.ValuesOf(spec))
	if err != nil {
		return nil, err
	}
	f, err := p.prepare(spec, cols, links, selection.Find)
	if err != nil {
		return nil, c.Refusal(resolve.Refusal(err))
	}
	if err := complete(c, f.resolution); err != nil {
		f.Stop()
		return nil, c.Refusal(err)
	}
	for i, said := range f.resolution.Notices {
		f.resolution.Notices[i] = "context " + c.Name + ": " + said
	}
	return f, nil
}

// complete checks that functions begin the context, and that others end it if it says so.
func complete(c *plan.Context, r *resolve.Resolution) error {
	if err := notReported(r); err != nil {
		return err
	}
	switch ws := r.Functions; {
	case !slices.ContainsFunc(ws, func(w calls.Function) bool { return w.Begins }):
		return plan.Errorf(-1, -1, "no function begins it: %s", c.Begin.Select)
	case c.End != nil && !slices.ContainsFunc(ws, func(w calls.Function) bool { return w.Ends }):
		return plan.Errorf(-1, -1, "no function ends it: %s", c.End.Select)
	}
	return nil
}

// notReported refuses functions that an interpreter or virtual machine reports.
func notReported(r *resolve.Resolution) error {
	if reported := r.Reported(); reported != "" {
		return plan.Errorf(-1, -1, "%s are in no context", reported)
	}
	return nil
}

// agree checks that two acquisitions observe the functions that they share at the same
// instructions, so that the order of attachment decides which is first, and that what leads
// can tell contexts.
func agree(leader, follower *resolve.Resolution) error {
	if err := notReported(leader); err != nil {
		return err
	}
	type at struct {
		file  process.FileID
		entry uint64
	}
	placeOf := func(w calls.Function) at { return at{w.Module.ID, w.Site.Offset - w.Behind} }
	own := map[at]calls.Function{}
	ofGo := false
	for _, w := range follower.Functions {
		own[placeOf(w)] = w
		ofGo = ofGo || w.Flags&abi.GoRegisters != 0
	}
	for _, w := range leader.Functions {
		if w.Marked != nil && ofGo {
			return plan.Errorf(-1, -1, "%s is a place in the code, and in Go only calls of functions are in a context", w.Label.Function)
		}
		f, shared := own[placeOf(w)]
		if !shared || w.Marked != nil {
			continue
		}
		if w.Site.Offset != f.Site.Offset || w.Returns != calls.Unseen && !slices.EqualFunc(w.Exits, f.Exits, sameOffset) {
			return plan.Errorf(-1, -1, "%s begins or ends the context, and cannot be observed at the same instructions by the query", w.Label.Function)
		}
	}
	return nil
}

func sameOffset(a, b codesite.Site) bool { return a.Offset == b.Offset }

// installFollower loads the programs of the follower of s, with the maps that both share. The
// caller holds Provider.mu.
func (p *Provider) installFollower(s *source) (err error) {
	if s.follower.loaded, err = p.install(s.follower); err == nil {
		s.contexts = s.follower.contexts
	}
	return err
}

// attachStage attaches some probes of a follower.
func (p *Provider) attachStage(f *source, only stage) error {
	f.stage = only
	landmarks := 0
	if only == onlyEntries {
		landmarks = len(f.resolution.Landmarks)
	}
	if err := p.attachFrom(f, p.active[f], 0, landmarks, 0); err != nil {
		return err
	}
	for _, w := range f.resolution.Functions {
		if w.Refused {
			return f.spec.Follows.Refusal(plan.Errorf(-1, -1, "the kernel refuses to probe %s", w.Label.Function))
		}
	}
	return nil
}

// beginContext attaches what is left of a follower, and begins to follow. At the end of a
// thread the kernel runs the program attached first first.
func (p *Provider) beginContext(f *source) error {
	if err := p.attachThreadEnd(f, p.active[f]); err != nil {
		return err
	}
	if err := p.attachStage(f, onlyEntries); err != nil {
		return err
	}
	f.stage = allProbes
	return p.activate(f)
}

// allSites returns the sites of s and of its follower.
func (s *source) allSites() []probes.Site {
	if s.follower == nil {
		return s.sites()
	}
	return append(slices.Clip(s.sites()), s.follower.sites()...)
}

// FollowContext implements stack.Contexts. Samples happen between instructions, so nothing is
// attached in an order. Where a context has an end of its own, a sample is inside of it as
// long as the function runs that called the one that begins it: its caller is noted.
func (p *Provider) FollowContext(spec *plan.Acquire, owner probes.Source) (*stack.Follower, error) {
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
	return &stack.Follower{Source: sampled{f}, Inside: func() map[string]*ebpf.Map { return f.contexts.Maps() }}, nil
}

// sampled follows a context for samples of stacks.
type sampled struct{ *source }

// Start implements probes.Source.
func (s sampled) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	return s.source.Start(ctx, contextSink{sink, s.spec.Follows.Name}, o)
}

// contextSink receives what a follower counts, for the sink of its leader. There are no rows.
type contextSink struct {
	probes.Sink
	name string // of the context
}

// causes are texts for what a follower counts.
var causes = map[string]string{
	decode.ContextsLost:     "no room for the calls that begin %s",
	decode.ContextsUnclosed: "events are missing inside of %s, which was left there",
	decode.TextCut:          "keys of %s cut off at 64 bytes",
}

// text returns the text for a cause.
func (c contextSink) text(cause string) string {
	if t := causes[cause]; t != "" {
		return fmt.Sprintf(t, c.name)
	}
	return "of " + c.name + ": " + cause
}

func (c contextSink) Push(b *batch.Batch)         { b.Release() }
func (c contextSink) Partial(b *batch.Batch)      { b.Release() }
func (c contextSink) Watermark(int64)             {}
func (c contextSink) Lost(cause string, n uint64) { c.Sink.Lost(c.text(cause), n) }
func (c contextSink) End(error)                   {}
func (c contextSink) Count(cause string, n uint64) {
	if cause != probes.Unfinished && cause != probes.Unobserved {
		c.Sink.Count(c.text(cause), n)
	}
}
