package uprobe

import (
	"context"
	"errors"
	"slices"
	"sync"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// whole reports whether each slice has all functions: their calls are a sequence.
func (s *slicer) whole() bool {
	return s.sliced != nil && s.sliced.spec.Stream == catalog.FunctionCall
}

// part is what distinguishes the two parts of a source with a budget.
type part struct {
	sliced bool // it is observed in slices
	mu     sync.Mutex
	chosen map[int]bool // functions that are attached all the time
}

// has reports whether a function is attached with the others; nil has all.
func (p *part) has(i int) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chosen[i]
}

func (p *part) set(chosen bool, functions ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range functions {
		p.chosen[i] = chosen
	}
}

// probes returns the number of probes of a source for max_probes: both parts together have
// each function once.
func (p *part) probes(s *source) int {
	if p != nil && p.sliced {
		return 0
	}
	return s.resolution.Probes()
}

// pricesOf returns the price of a call of each function, if the source is a part.
func (p *part) pricesOf(s *source) []uint64 {
	if p == nil {
		return nil
	}
	prices := make([]uint64, len(s.resolution.Functions))
	for i, price := range s.prices() {
		prices[i] = uint64(price.Open + price.Return)
	}
	return prices
}

// budgeted is a source with a budget. It consists of two, with the same functions: always
// observes some of them all the time, and sliced observes the others in slices of time
// (package slicing). A goroutine, the slicer, decides which and when.
//
// The calls of a sequence (function_call) are observed together, all of them in slices. Where
// they are recorded for a trigger (Settings.Recall), sliced is nil, and the others are left out.
type budgeted struct {
	always, sliced *source
	merge          *merge
	slicer         *slicer
	ended          chan struct{} // closed when nothing is attached any more

	mu      sync.Mutex // guards the following
	started bool
	stopped bool
}

var _ probes.Source = (*budgeted)(nil)

// prepareBudgeted is Prepare for a specification with a budget.
func (p *Provider) prepareBudgeted(spec *plan.Acquire, cols []calls.Column, links attach.Kind) (probes.Source, error) {
	if links == attach.Perf {
		return nil, plan.Errorf(spec.Start, spec.Stop, "an overhead cannot be kept on this kernel: detaching a probe takes it 0.1 s").WithHint("Linux 6.6 or later is needed, and SET probe_links = auto")
	}
	before := processTime()
	own := *spec
	own.Settings.AllProbed = true // a place is a probe
	s, err := p.prepare(&own, cols, links, selection.Find)
	if err != nil {
		return nil, resolve.Refusal(err)
	}
	refuse := func(format string, args ...any) (probes.Source, error) {
		s.Stop()
		return nil, plan.Errorf(spec.Start, spec.Stop, format, args...).WithHint("without WITHIN OVERHEAD the result is exact")
	}
	switch {
	case s.resolution.AreReported():
		return refuse("%s cannot be observed within an overhead yet", s.resolution.Reported())
	case s.aggregation == nil && !spec.Samples():
		return refuse("within an overhead the kernel must begin the aggregate, and cannot")
	case spec.Stream == catalog.FunctionCall && slices.ContainsFunc(s.resolution.Landmarks, calls.Landmark.Switches):
		return refuse("sequences of coroutines cannot be observed within an overhead: where they change is not observed between slices")
	}
	if resolve.PendingModules(spec, s.resolution.Selector, s.resolution.Running, s.resolution.Modules) != nil {
		s.resolution.Notices = append(s.resolution.Notices, "libraries that are loaded later are not observed within an overhead")
	}
	b := &budgeted{always: s, ended: make(chan struct{})}
	s.part = &part{chosen: map[int]bool{}}
	if spec.Settings.Recall == 0 {
		if b.sliced, err = s.twin(); err != nil {
			return refuse("%v", err)
		}
		b.sliced.part = &part{sliced: true}
	}
	for _, part := range b.parts() {
		part.owner, part.identity = b, func() string { return "" }
	}
	b.slicer = newSlicer(b.always, b.sliced)
	b.slicer.prepared = before
	return b, nil
}

// parts returns the parts, in the order in which they end.
func (b *budgeted) parts() []*source {
	if b.sliced == nil {
		return []*source{b.always}
	}
	return []*source{b.sliced, b.always}
}

// stopParts stops the parts.
func (b *budgeted) stopParts() (err error) {
	for _, part := range b.parts() {
		err = errors.Join(err, part.Stop())
	}
	return err
}

// twin returns a source of the same functions, whose panes have no end.
func (s *source) twin() (*source, error) {
	t := &source{
		provider: s.provider, spec: s.spec, links: s.links, wants: s.wants, values: s.values, filter: s.filter,
		resolution: s.resolution, executables: s.executables, state: make(chan struct{}), overwrites: s.overwrites,
	}
	if s.aggregation != nil {
		endless := *s.aggregation
		endless.Pane = program.Endless
		t.aggregation = &endless
	}
	if s.receivers == nil {
		return t, nil
	}
	var err error
	t.receivers, err = decode.NewReceivers(s.provider.modulesFor(s.spec), s.resolution.Functions)
	return t, err
}

// Info implements probes.Source. The source is not shared, gated or armed ahead.
func (b *budgeted) Info() probes.Info {
	d := b.always.describe()
	info := probes.Info{
		Sites: d.Sites, Notices: d.Notices, Residual: d.Residual, Live: true,
		Remarks: b.slicer.remarks(), Strata: b.slicer.strata(),
	}
	if b.aggregates() {
		info.Aggregates, info.Aggregation = true, d.Aggregation+", by place and replicate"
	}
	return info
}

// Load implements probes.Source.
func (b *budgeted) Load(ctx context.Context, o probes.Options) error {
	for _, part := range slices.Backward(b.parts()) {
		if err := part.Load(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Start implements probes.Source.
func (b *budgeted) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	b.mu.Lock()
	if b.started || b.stopped {
		b.mu.Unlock()
		return errors.New("uprobe: a source is started once")
	}
	b.started = true
	b.mu.Unlock()
	spec := b.always.spec
	b.slicer.ceiling = o.Ceiling
	b.slicer.bound()
	running := false
	ended, forget, err := watchAll(spec.Target, b.always.resolution.Knows)
	if err == nil {
		b.merge = newMerge(sink, int64(b.always.provider.lateness(spec)))
		for _, part := range slices.Backward(b.parts()) {
			if err == nil {
				err = part.Start(ctx, b.add(), o)
			}
		}
	}
	if err == nil {
		running = true
		go b.slicer.run()
		err = <-b.slicer.ready
	}
	if err != nil {
		forget()
		b.mu.Lock()
		first := !b.stopped
		b.stopped = true
		b.mu.Unlock()
		if running {
			<-b.slicer.over
		}
		err = errors.Join(err, b.stopParts())
		if first { // else Stop closes it
			close(b.ended)
		}
		return err
	}
	go b.stopAfter(ended, forget)
	return nil
}

// aggregates reports whether the source gives states of groups; else it gives rows, a sample of the
// calls.
func (b *budgeted) aggregates() bool { return !b.always.spec.Samples() }

// add returns the sink of a part.
func (b *budgeted) add() probes.Sink {
	if b.aggregates() {
		return statesOnly{b.merge.add()}
	}
	return b.merge.add()
}

// stopAfter stops the source when its processes have ended, or a part has failed.
func (b *budgeted) stopAfter(ended <-chan struct{}, forget func()) {
	defer func() { forget() }()
	sliced := b.always.state
	if b.sliced != nil {
		sliced = b.sliced.state
	}
	for {
		select {
		case <-ended: // never, if it is nil
			forget()
			if ended, forget = b.always.watchFamily(); ended != nil {
				continue
			}
		case <-b.always.state:
		case <-sliced:
		case <-b.slicer.failed:
		case <-b.ended:
			return
		}
		b.Stop()
		return
	}
}

// Stop implements probes.Source. The slicer sends the last exposures before the parts end.
func (b *budgeted) Stop() error {
	b.mu.Lock()
	first, started := !b.stopped, b.started
	b.stopped = true
	b.mu.Unlock()
	if !first {
		if started {
			<-b.ended
		}
		return nil
	}
	if !started {
		return b.stopParts()
	}
	err := errors.Join(b.slicer.end(), b.stopParts())
	close(b.ended)
	if b.merge != nil {
		b.merge.end(err)
	}
	return nil
}

// Control implements probes.Source.
func (b *budgeted) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Collect); ok && b.aggregates() {
		return probes.Reply{}, errors.Join(b.always.collect(), b.slicer.collect())
	}
	return probes.Unsupported(c)
}

// Stats implements probes.Source.
func (b *budgeted) Stats() probes.Stats {
	s := b.always.Stats()
	if b.sliced != nil {
		t := b.sliced.Stats()
		s.Events += t.Events
		s.Awaited += t.Awaited
		s.Spent += t.Spent
	}
	s.Overhead = b.slicer.recent.share()
	return s
}

// statesOnly counts events that the kernel could not fold as lost: they do not say in which
// slice they were seen.
type statesOnly struct{ *mergePart }

// Push implements probes.Sink.
func (s statesOnly) Push(b *batch.Batch) {
	s.Lost("calls that the kernel could not fold into a group", uint64(b.Len()))
	b.Release()
}

// attachSome attaches functions of a part, in one link for each module, process and way of
// observing returns.
func (s *source) attachSome(which []int) (links []*attach.Link, err error) {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil, errStopped
	}
	for _, group := range s.groups(which) {
		if err := p.lease(s, in, s.resolution.Functions[group[0]].Module); err != nil {
			attach.CloseAll(links)
			return nil, err
		}
		more, err := p.attachMost(s, in, group)
		if err != nil {
			attach.CloseAll(links)
			return nil, err
		}
		links = append(links, more...)
	}
	return links, nil
}

// keepLinks gives links to a part: they are detached with it.
func (s *source) keepLinks(links []*attach.Link) {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.active[s]; in != nil && !s.stopped {
		in.Links = append(in.Links, links...)
		return
	}
	p.background.Go(func() { attach.CloseAll(links) })
}

// dropLinks takes links from a part, and returns those that it still had. The caller closes
// them.
func (s *source) dropLinks(links []*attach.Link) (taken []*attach.Link) {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil
	}
	in.Links = slices.DeleteFunc(slices.Clone(in.Links), func(l *attach.Link) bool {
		if slices.Contains(links, l) {
			taken = append(taken, l)
			return true
		}
		return false
	})
	return taken
}

// installation returns the programs of a part; nil if it has ended, or there is none.
func (s *source) installation() *program.Installation {
	if s == nil {
		return nil
	}
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	return s.provider.active[s]
}
