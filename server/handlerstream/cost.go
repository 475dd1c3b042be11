package handlerstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
)

// CostStream is the stream of this file: calls of the event handlers that are
// found, from when they are found until they no longer are.
const CostStream = catalog.HandlerCost

const (
	// lookForHandlers is the interval at which the probed functions are
	// compared with the handlers found.
	lookForHandlers = 2 * time.Second
	// keepHandlers is the number of consecutive comparisons in which a handler
	// may be missing before its probes are detached.
	keepHandlers = 3
)

// callColumns maps the stream's columns to columns of function_duration, by
// name.
var callColumns = func() map[string]string {
	from := map[string]string{}
	for _, c := range catalog.Must(CostStream).All() {
		from[c.Name] = c.Name
	}
	from["handler"] = "function_name"
	for _, name := range from {
		catalog.Position(catalog.FunctionDuration, name)
	}
	return from
}()

// CostProvider probes the functions that another provider identifies as event
// handlers.
type CostProvider struct {
	Handlers probes.Provider
	Calls    probes.Provider
}

func (p *CostProvider) Streams() []string { return []string{CostStream} }

func (p *CostProvider) Close() error { return nil }

func (p *CostProvider) Prepare(ctx context.Context, spec *plan.Acquire) (probes.Source, error) {
	s := &handlerCostSource{provider: p, spec: *spec, probed: map[handlerName]*probedHandlers{}, refused: map[handlerName]bool{}, missing: map[handlerName]int{}}
	s.spec.Stream, s.spec.Select, s.spec.Filter, s.spec.FilterOnly, s.spec.Partial = catalog.FunctionDuration, nil, nil, nil, nil
	s.spec.Out.Fields = slices.Clone(spec.Out.Fields)
	for i := range s.spec.Out.Fields {
		f := &s.spec.Out.Fields[i]
		from := callColumns[f.Name]
		if from == "" {
			return nil, plan.Errorf(spec.Start, spec.Stop, "%s has no column %s", CostStream, f.Name)
		}
		f.Name = from
	}
	found := *spec
	found.Stream, found.Every, found.Select, found.Filter, found.FilterOnly, found.Partial = Stream, lookForHandlers, nil, nil, nil, nil
	found.Out = types.Schema{Time: 0, Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}, {Name: "handler", Type: types.Varchar}, {Name: "module", Type: types.Varchar}}}
	found.Whole = true // a call that was inlined cannot be probed
	var err error
	if s.finder, err = p.Handlers.Prepare(ctx, &found); err != nil {
		return nil, inTermsOf(Stream, CostStream, err)
	}
	s.filter = spec.Filter
	return s, nil
}

// handlerName is the name of a function and its module.
type handlerName struct{ function, module string }

// probedHandlers are handlers that share a source of probes: those that were
// found in one module at the same time. It is the sink of that source.
type probedHandlers struct {
	of     *handlerCostSource
	source probes.Source
	names  []handlerName
	mark   int64 // last watermark of the source
	over   bool
}

// handlerCostSource delivers the calls of handlers. A goroutine of its own
// attaches and detaches probes, since that takes longer than samplers may wait.
type handlerCostSource struct {
	provider *CostProvider
	spec     plan.Acquire // acquisition of function_duration
	filter   plan.Expr
	finder   probes.Source
	cancel   context.CancelFunc
	changes  chan map[handlerName]bool // the latest handlers found, until they are processed
	done     chan struct{}             // closed when no probe is attached any more

	mu      sync.Mutex // guards the following, and the use of sink
	sink    probes.Sink
	probed  map[handlerName]*probedHandlers
	groups  []*probedHandlers
	refused map[handlerName]bool
	missing map[handlerName]int // number of consecutive comparisons without the handler
	now     int64               // last watermark of the finder
	given   int64
	over    bool
	err     error
}

// Info implements probes.Source. Sites are the sampler's, and those of the
// current probes. The source is not shared or gated: the finder decides when
// its probes are attached.
func (s *handlerCostSource) Info() probes.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.finder.Info()
	i := probes.Info{Sites: slices.Clone(of.Sites), Refusal: of.Refusal, Residual: s.filter, Live: true}
	for _, g := range s.groups {
		i.Sites = append(i.Sites, g.source.Info().Sites...)
	}
	i.Notices = append(slices.Clone(of.Notices), fmt.Sprintf("handlers are looked for all the time, and probed when they are found: after some %v, if the program is busy", 2*lookForHandlers))
	return i
}

// Load implements probes.Source: it is forwarded to the finder.
func (s *handlerCostSource) Load(ctx context.Context, _ probes.Options) error {
	return s.finder.Load(ctx, probes.Options{})
}

// Control implements probes.Source: every command is refused, see Info.
func (s *handlerCostSource) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	return probes.Unsupported(c)
}

// Stats implements probes.Source. It is empty: the sum over the current probes
// would not be monotonic.
func (s *handlerCostSource) Stats() probes.Stats { return probes.Stats{} }

func (s *handlerCostSource) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	ctx, s.cancel = context.WithCancel(ctx)
	s.sink, s.changes, s.done = sink, make(chan map[handlerName]bool, 1), make(chan struct{})
	go s.follow(ctx)
	if err := s.finder.Start(ctx, (*handlerFinder)(s), probes.Options{}); err != nil {
		s.mu.Lock()
		s.over = true // Start returns the error
		s.mu.Unlock()
		s.cancel()
		<-s.done
		return err
	}
	return nil
}

func (s *handlerCostSource) Stop() error {
	err := s.finder.Stop() // its End ends the stream
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
	return err
}

// follow attaches and detaches probes until the finder ends or the source is
// stopped. Then it ends the stream.
func (s *handlerCostSource) follow(ctx context.Context) {
	defer close(s.done)
	for open := true; open; {
		var found map[handlerName]bool
		select {
		case found, open = <-s.changes:
		case <-ctx.Done():
			open = false
		}
		if open {
			s.attach(ctx, found, s.detach(found))
		}
	}
	s.mu.Lock()
	groups := s.groups
	s.mu.Unlock()
	for _, g := range groups {
		_ = g.source.Stop() // its rows are delivered; an error is reported by its End
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		s.sink.End(s.err)
	}
}

// attach probes new handlers, and those that lost their probes together with
// others (bared), with one source per module.
func (s *handlerCostSource) attach(ctx context.Context, found map[handlerName]bool, bared []handlerName) {
	fresh := map[string][]handlerName{}
	for _, name := range bared {
		fresh[name.module] = append(fresh[name.module], name)
	}
	s.mu.Lock()
	for name := range found {
		if s.probed[name] == nil && !s.refused[name] && !slices.Contains(bared, name) {
			fresh[name.module] = append(fresh[name.module], name)
		}
	}
	for name := range s.refused {
		if !found[name] {
			delete(s.refused, name)
		}
	}
	s.mu.Unlock()
	for _, names := range fresh {
		slices.SortFunc(names, func(a, b handlerName) int { return strings.Compare(a.function, b.function) })
		err := s.probe(ctx, names)
		for i := 0; i < len(names) && err != nil && ctx.Err() == nil; i++ { // a single one may be the cause
			name, why := names[i], err
			if len(names) > 1 {
				why = s.probe(ctx, names[i:i+1])
			}
			if why != nil {
				s.mu.Lock()
				s.refused[name] = true
				s.sink.Count(fmt.Sprintf("handlers that cannot be probed (%s: %v)", name.function, why), 1)
				s.mu.Unlock()
			}
		}
	}
}

// probe starts to observe handlers of one module.
func (s *handlerCostSource) probe(ctx context.Context, names []handlerName) error {
	spec := s.spec
	in := &plan.In{X: &plan.Col{Index: 0, Name: "function_name", T: types.Varchar}}
	for _, name := range names {
		in.List = append(in.List, plan.Const{V: types.Str(name.function)})
	}
	spec.Select = &plan.Call{Fn: "and", T: types.Boolean, Args: []plan.Expr{in, &plan.Call{Fn: "=", T: types.Boolean,
		Args: []plan.Expr{&plan.Col{Index: 2, Name: "module", T: types.Varchar}, &plan.Const{V: types.Str(names[0].module)}}}}}
	source, err := s.provider.Calls.Prepare(ctx, &spec)
	if err != nil {
		return err
	}
	g := &probedHandlers{of: s, source: source, names: names}
	s.mu.Lock()
	g.mark = s.now
	s.mu.Unlock()
	if err := source.Start(ctx, g, probes.Options{}); err != nil {
		_ = source.Stop() // Start returns the error
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, g)
	for _, name := range names {
		s.probed[name] = g
	}
	return nil
}

// detach detaches the probes of handlers that have been missing for too long.
// Probes that were attached together are detached together: bared are the
// handlers that are still found and lost their probes that way.
func (s *handlerCostSource) detach(found map[handlerName]bool) (bared []handlerName) {
	var gone []*probedHandlers
	s.mu.Lock()
	for name := range s.probed {
		if s.missing[name]++; found[name] {
			s.missing[name] = 0
		}
	}
	ended := func(name handlerName) bool { return s.missing[name] >= keepHandlers }
	s.groups = slices.DeleteFunc(s.groups, func(g *probedHandlers) bool {
		if !g.over && !slices.ContainsFunc(g.names, ended) {
			return false
		}
		gone = append(gone, g)
		return true
	})
	for _, g := range gone {
		for _, name := range g.names {
			if !g.over && !ended(name) {
				bared = append(bared, name)
			}
			delete(s.probed, name)
			delete(s.missing, name)
		}
	}
	if len(bared) > 0 {
		s.sink.Count(withoutProbes, uint64(len(bared)))
	}
	s.mu.Unlock()
	for _, g := range gone {
		_ = g.source.Stop() // see follow
	}
	return bared
}

// withoutProbes is the name of the count of times that a handler briefly had no
// probes.
const withoutProbes = "times that a handler had no probes for some 0.1 s, while those of others were detached"

// advance passes on the watermark that all sources have reached. The caller
// holds mu.
func (s *handlerCostSource) advance() {
	t := s.now
	for _, g := range s.groups {
		if !g.over {
			t = min(t, g.mark)
		}
	}
	if t > s.given && !s.over {
		s.given = t
		s.sink.Watermark(t)
	}
}

func (g *probedHandlers) Push(b *batch.Batch) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	if g.of.over {
		b.Release()
		return
	}
	g.of.sink.Push(b)
}

// Partial is not called: no aggregate is pushed down.
func (g *probedHandlers) Partial(b *batch.Batch) { b.Release() }

func (g *probedHandlers) Watermark(t int64) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.mark = t
	g.of.advance()
}

func (g *probedHandlers) Lost(cause string, n uint64) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.sink.Lost(cause, n)
}

func (g *probedHandlers) Count(cause string, n uint64) {
	if cause == probes.Unobserved { // the probes of other handlers count the same children
		return
	}
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.sink.Count(cause, n)
}

// End ends the probes of these handlers only.
func (g *probedHandlers) End(err error) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.over = true
	if err != nil && g.of.err == nil {
		g.of.err = err
	}
	g.of.advance()
}

// handlerFinder is a handlerCostSource as the sink of the source of
// event_handlers.
type handlerFinder handlerCostSource

// Push passes on the handlers found by one analysis.
func (f *handlerFinder) Push(b *batch.Batch) {
	defer b.Release()
	found := map[handlerName]bool{}
	for i := range b.Len() {
		row := b.Row(i)
		found[handlerName{textAt(b, 1, row), textAt(b, 2, row)}] = true
	}
	select { // a result that was not processed yet is outdated
	case <-f.changes:
	default:
	}
	f.changes <- found
}

func (f *handlerFinder) Partial(b *batch.Batch) { b.Release() }

func (f *handlerFinder) Watermark(t int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = t
	(*handlerCostSource)(f).advance()
}

func (f *handlerFinder) Lost(cause string, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sink.Count(cause, n) // of samples, not of calls
}

func (f *handlerFinder) Count(cause string, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sink.Count(cause, n)
}

func (f *handlerFinder) End(err error) {
	f.mu.Lock()
	if err != nil && f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	close(f.changes)
}
