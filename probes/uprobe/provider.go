package uprobe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/calibrate"
	"endoscope/probes/clock"
	"endoscope/probes/debugfiles"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// Options configure a Provider. The zero value of a field takes its default.
type Options struct {
	// Match compiles a query's selection of functions. Required.
	Match selection.Matcher
	// RingBytes is the size of the buffer between kernel and reader, a power
	// of two of at least a page. Default 16 MiB.
	RingBytes int
	// MaxProbes is the maximum number of probes of all queries together. A function
	// counts once for each query, plus its exits where those are probed. Default 10,000.
	MaxProbes int
	// MaxCalls is the maximum number of calls under way for each query, in functions
	// whose exits are probed. Default 262,144.
	MaxCalls int
	// Lateness is the delay of watermarks behind the clock. Default 100 ms.
	Lateness time.Duration
	// Links is the meaning of SET probe_links = auto: one of its other values, or "" for
	// the best kind the kernel has. For tests.
	Links string
	// Prices are the costs of probes, possibly incomplete; nil means that they are
	// measured once for each machine. See package calibrate.
	Prices calibrate.Table
	// Returns is the meaning of SET return_probes = auto. For tests.
	Returns plan.ReturnProbes
	// Preallocate makes hash tables allocate their memory on creation, and limits their
	// size, as is done before Linux 6.1. For tests.
	Preallocate bool
}

const (
	defaultRingBytes = 16 << 20
	defaultMaxProbes = 10_000
	defaultLateness  = 100 * time.Millisecond
	// A table of this size takes 4 MiB; its entries are allocated as needed.
	defaultMaxCalls = 1 << 18
)

// Provider acquires streams of function calls. It is safe for concurrent use.
type Provider struct {
	o       Options
	offset  int64 // from the boot clock to the epoch
	modules elf.Cache
	costs   func() calls.Costs // of probes on this machine
	// compiled returns the input for specialising programs.
	compiled func() (program.Compiled, error)

	background sync.WaitGroup // detaches probes used to measure and to estimate
	leases     *attach.Leases

	mu     sync.Mutex      // held while probes are attached and detached
	kernel *program.Kernel // nil before the first Start
	reader *decode.Reader  // nil while no query runs
	active map[*source]*program.Installation
	closed bool
	// overwrites counts, by file, how often a probed file was opened for writing.
	overwrites map[process.FileID]uint64
	// executions is nil where no link is restricted to a process.
	executions *executions
	following  sync.WaitGroup // goroutines that end executions
	// history is nil where no source needs it.
	history *process.History
}

var _ probes.Provider = (*Provider)(nil)

// New returns a provider. It touches the kernel only when a query starts.
func New(o Options) *Provider {
	if o.RingBytes == 0 {
		o.RingBytes = defaultRingBytes
	}
	if o.MaxProbes == 0 {
		o.MaxProbes = defaultMaxProbes
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = defaultMaxCalls
	}
	if o.Lateness == 0 {
		o.Lateness = defaultLateness
	}
	p := &Provider{o: o, offset: clock.Offset(), compiled: sync.OnceValues(program.Read), active: map[*source]*program.Installation{}, overwrites: map[process.FileID]uint64{}}
	p.costs = sync.OnceValue(p.knownCosts)
	p.leases = attach.NewLeases(p.overwritten)
	return p
}

// Streams implements probes.Provider.
func (p *Provider) Streams() []string {
	return []string{catalog.FunctionStart, catalog.FunctionEnd, catalog.FunctionDuration, catalog.FunctionCall, catalog.Allocation, catalog.Deallocation}
}

// Prepare implements probes.Provider.
func (p *Provider) Prepare(ctx context.Context, spec *plan.Acquire) (probes.Source, error) {
	cols, err := calls.ColumnsOf(spec, calls.ValuesOf(spec))
	if err != nil {
		return nil, err
	}
	if err := program.Needs.Check(spec); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	links, err := p.linksFor(spec)
	if err != nil {
		return nil, err
	}
	if err := refuseContext(spec); err != nil {
		return nil, err
	}
	if spec.Budget != nil {
		return p.prepareBudgeted(spec, cols, links)
	}
	meter := p.beginEstimate(spec)
	go p.compiled() // in parallel with reading the symbols
	s, err := p.prepare(spec, cols, links, selection.Find)
	if err != nil {
		p.endEstimate(meter)
		var none *resolve.NoModules
		if errors.As(err, &none) && spec.Settings.Recall == 0 && !spec.ReadsContext() {
			if c := resolve.PendingModules(spec, none.Sel, none.Running, selection.NewModuleSet()); c != nil {
				return newGrowing(p, spec, cols, links, c, nil), nil
			}
		}
		return nil, resolve.Refusal(err)
	}
	s.estimate, s.refusal = p.estimate(s, meter)
	if spec.ReadsContext() {
		if err := p.addFollower(s); err != nil {
			s.Stop()
			return nil, err
		}
	}
	if spec.Settings.Recall > 0 {
		return s, nil // of later modules nothing is recorded
	}
	if c := resolve.PendingModules(spec, s.resolution.Selector, s.resolution.Running, s.resolution.Modules); c != nil {
		return newGrowing(p, spec, cols, links, c, s), nil
	}
	return s, nil
}

// modulesFor returns the modules with the debug files that the settings of spec name.
func (p *Provider) modulesFor(spec *plan.Acquire) *elf.Cache {
	return p.modules.With(debugfiles.Search(spec.Settings))
}

// prepare is Prepare without the estimate of costs.
func (p *Provider) prepare(spec *plan.Acquire, cols []calls.Column, links attach.Kind, find resolve.Finder) (_ *source, err error) {
	vs, executables := calls.ValuesOf(spec), executablesAt(slices.Concat(spec.Target.Exes, spec.Target.Files))
	modules := p.modulesFor(spec)
	r, err := resolve.Resolve(spec, p.o.Match, modules, vs, links, spec.Stream != catalog.FunctionStart || slices.Contains(cols, calls.ColDepth), p.returnsBy(spec), p.costs, find, p.placedIn)
	if err != nil {
		return nil, err
	}
	var classes *decode.Receivers
	defer func() {
		if err != nil {
			r.Modules.Close()
			classes.Close()
		}
	}()
	if calls.ReadsMethodColumns(spec.Out) {
		if classes, err = decode.NewReceivers(modules, r.Functions); err != nil {
			return nil, selection.RefuseTarget(spec.Target, "cannot tell classes of %v", err)
		}
	}
	if n := r.Probes(); n > min(p.maxProbes(spec), abi.MaxFunctions) {
		return nil, p.tooMany(spec, r, n)
	}
	if err := calls.CheckNesting(spec, r.Functions); err != nil {
		return nil, err
	}
	if err := calls.CheckStack(spec); err != nil {
		return nil, err
	}
	slow, err := resolve.CheckEvents(spec, links, r.Functions)
	if err != nil {
		return nil, err
	}
	if slow != "" {
		r.Notices = append(r.Notices, slow)
	}
	if spec.Follows != nil {
		if err := calls.KeepKeys(spec.Follows, r.Functions); err != nil {
			return nil, err
		}
	}
	cols = slices.Clone(cols)
	values, err := calls.NewValues(spec, cols, vs, r.Functions)
	if err != nil {
		return nil, err
	}
	if spec.Filter != nil {
		if err := calls.CheckEnumerators(spec.Filter, vs); err != nil {
			return nil, probes.AtStream(err, spec)
		}
	}
	if spec.Follows == nil {
		r.Notices = append(r.Notices, calls.UnreadValues(vs, r.Functions)...)
	}
	f := calls.CompileFilter(p.o.Match, p.offset, spec, values, r.Functions)
	// The filter may test texts, which then have to be read.
	var aggregated *program.Aggregation
	extensible := calls.Nests(spec) && spec.Follows == nil && !r.AreReported() && spec.Settings.Recall == 0 && resolve.PendingModules(spec, r.Selector, r.Running, r.Modules) != nil
	if !r.AreReported() && !extensible {
		aggregated = program.CompileAggregation(spec, f, r.Functions, len(r.Inferred), p.o.preallocates())
	}
	w := calls.NewRequest(spec, cols, values, f.Program)
	if err := calls.CheckRecall(spec, w.Options, r.Reported()); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(r.Functions, func(w calls.Function) bool { return w.Flags&abi.GoRegisters != 0 }) &&
		!slices.ContainsFunc(r.Landmarks, calls.Landmark.Switches) {
		w.Options &^= abi.SendGoroutine // there are no coroutines, either
	}
	s := &source{
		provider: p, spec: spec, links: links, wants: w, values: values, filter: f, aggregation: aggregated,
		resolution: r, receivers: classes, executables: executables, state: make(chan struct{}), extensible: extensible, overwrites: p.countOverwrites(r.Modules),
	}
	s.identity = sync.OnceValue(s.identify)
	if c := spec.Follows; c != nil {
		if s.following, err = calls.Follow(c, cols, followedKey, values, r.Functions, f, &s.wants); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// placedIn returns the file offsets of the places of a file that queries probe, for
// resolve.Resolve.
func (p *Provider) placedIn(id process.FileID) (offsets []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.active {
		for _, w := range s.resolution.Functions {
			if w.Flags&abi.Placed != 0 && w.Module.ID == id && !slices.Contains(offsets, w.Site.Offset) {
				offsets = append(offsets, w.Site.Offset)
			}
		}
	}
	return offsets
}

// maxProbes returns the maximum number of probes including spec's: the session's limit,
// or the provider's.
func (p *Provider) maxProbes(spec *plan.Acquire) int {
	if n := spec.Settings.MaxProbes; n > 0 {
		return n
	}
	return p.o.MaxProbes
}

// lateness returns the delay of spec's watermarks behind the clock, in ns.
func (p *Provider) lateness(spec *plan.Acquire) int64 {
	if spec.Settings == (plan.Settings{}) {
		return int64(p.o.Lateness)
	}
	return int64(spec.Settings.Lateness)
}

// tooMany returns the error for adding the probes of r, for a total of n.
func (p *Provider) tooMany(spec *plan.Acquire, r *resolve.Resolution, n int) error {
	what := "functions would be probed"
	if slices.ContainsFunc(r.Functions, func(w calls.Function) bool { return w.Returns == calls.AtExits }) {
		what = "entries and exits of functions would be probed"
	}
	return plan.Errorf(spec.Start, spec.Stop, "%d %s, and at most %d may be at a time", n, what, p.maxProbes(spec)).
		WithHint("choose functions by name, or raise the limit: SET max_probes = %d", n)
}

// returnsBy returns how spec's returns are observed.
func (p *Provider) returnsBy(spec *plan.Acquire) plan.ReturnProbes {
	if by := spec.Settings.Returns; by != plan.AutoReturns {
		return by
	}
	return p.o.Returns
}

// Probes lists the attached probes, for sys.probes.
func (p *Provider) Probes() []probes.Site {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sitesOf(p.active)
}

// Close frees what is kept between queries. Queries should have been stopped: one that
// still runs receives no more rows, and ends when it is stopped.
func (p *Provider) Close() error {
	defer p.leases.Close()   // after the lock is released, for which revoke may wait
	defer p.following.Wait() // likewise
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	for _, in := range p.active {
		in.EndAggregate() // before the reader stops, which collecting needs
	}
	if p.reader != nil {
		p.reader.Stop()
		p.reader = nil
	}
	if p.kernel != nil {
		for s, in := range p.active {
			in.Detach()
			s.recaller.Stop()
			s.sub.CloseStacks()
			s.contexts.Close()
			p.kernel.Remove(in)
		}
		clear(p.active)
		p.unfollow()
		p.forgetHistory()
		p.kernel.Close()
		p.kernel = nil
	}
	p.background.Wait()
	return p.modules.Close()
}

// preallocates reports whether the provider's hash tables are preallocated.
func (o Options) preallocates() bool { return o.Preallocate || !attach.FeatureAllocation.Has() }

// linksFor returns the kind of link for spec's probes.
func (p *Provider) linksFor(spec *plan.Acquire) (attach.Kind, error) {
	wanted := spec.Settings.ProbeLinks
	if wanted == "" || wanted == "auto" {
		wanted = p.o.Links
	}
	return attach.ChooseKind(spec, wanted, func(k attach.Kind) bool { return k.Needs().Has() })
}

// site identifies a probe that several queries have in common.
type site struct {
	file   process.FileID
	offset uint64
	kind   string
	scope  string
}

// sitesOf lists the probed functions, once for each site, with the sources that probe it
// and its hits since the first of them began.
func sitesOf(active map[*source]*program.Installation) []probes.Site {
	bySite := map[site]*probes.Site{}
	var per []uint64
	for s, in := range active {
		if len(in.Links) == 0 { // behind a gate that is shut for long
			continue
		}
		for i, w := range s.resolution.Functions {
			if w.Refused || w.Module.Written || !s.part.has(i) {
				continue
			}
			key := site{w.Module.ID, w.Site.Offset, resolve.KindOf(w, s.links), w.Scope.Key}
			at := bySite[key]
			if at == nil {
				described := s.resolution.SiteOf(w, s.links, s.aggregation != nil)
				at = &described
				bySite[key] = at
			}
			if !slices.Contains(at.Sources, s.shown()) {
				at.Sources = append(at.Sources, s.shown())
			}
			at.Hits = max(at.Hits, in.Hits(uint32(i), &per))
		}
	}
	var out []probes.Site
	for _, s := range bySite {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b probes.Site) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}

// queries returns how many queries run, at least one.
func (p *Provider) queries() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := map[probes.Source]bool{}
	for s := range p.active {
		list[s.shown()] = true
	}
	return int64(max(len(list), 1))
}

// shown returns the source known to the engine.
func (s *source) shown() probes.Source {
	switch {
	case s.leader != nil:
		return s.leader.shown()
	case s.owner != nil:
		return s.owner
	}
	return s
}
