package handlerstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
)

// callsNoted is a provider of calls that attaches nothing, and records what it
// would attach.
type callsNoted struct {
	mu       sync.Mutex
	attached []*callsSource
	refuses  string // a function
}

type callsSource struct {
	probes.Base
	of    *callsNoted
	names []string
	sink  probes.Sink
}

func (p *callsNoted) Streams() []string { return nil }

func (p *callsNoted) Close() error { return nil }

func (p *callsNoted) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	s := &callsSource{of: p}
	for _, name := range spec.Select.(*plan.Call).Args[0].(*plan.In).List {
		s.names = append(s.names, name.V.S)
	}
	if slices.Contains(s.names, p.refuses) {
		return nil, errors.New("no such function")
	}
	return s, nil
}

func (s *callsSource) Info() probes.Info { return probes.Info{Live: true} }

func (s *callsSource) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.sink = sink
	s.of.attached = append(s.of.attached, s)
	return nil
}

func (s *callsSource) Stop() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.attached = slices.DeleteFunc(s.of.attached, func(o *callsSource) bool { return o == s })
	return nil
}

// String lists what is attached.
func (p *callsNoted) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var groups []string
	for _, s := range p.attached {
		groups = append(groups, strings.Join(s.names, "+"))
	}
	slices.Sort(groups)
	return strings.Join(groups, " ")
}

// handlersTold is a provider of handlers that the test supplies.
type handlersTold struct{ sink probes.Sink }

func (p *handlersTold) Streams() []string { return nil }

func (p *handlersTold) Close() error { return nil }

func (p *handlersTold) Prepare(context.Context, *plan.Acquire) (probes.Source, error) {
	return &toldSource{p: p}, nil
}

type toldSource struct {
	callsSource
	p    *handlersTold
	once sync.Once
}

func (s *toldSource) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	s.p.sink = sink
	return nil
}

func (s *toldSource) Stop() error {
	s.once.Do(func() { s.p.sink.End(nil) })
	return nil
}

// countsOf is a sink that stores the counts.
type countsOf struct {
	mu     sync.Mutex
	counts map[string]uint64
	rows   int
	ended  bool
}

func (c *countsOf) Push(b *batch.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows += b.Len()
	b.Release()
}

func (c *countsOf) Partial(b *batch.Batch) { b.Release() }

func (c *countsOf) Watermark(int64) {}

func (c *countsOf) Lost(cause string, _ uint64) { c.Count("lost: "+cause, 1) }

func (c *countsOf) Count(cause string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[cause] += n
}

func (c *countsOf) End(error) { c.ended = true }

// of returns the sum of the counts whose cause contains part.
func (c *countsOf) of(part string) (n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cause, k := range c.counts {
		if strings.Contains(cause, part) {
			n += k
		}
	}
	return n
}

// Probes are attached when a handler is found, and detached when it has been
// missing for a while, together with those of other missing handlers only.
func TestHandlerCostFollows(t *testing.T) {
	handlers, calls := &handlersTold{}, &callsNoted{refuses: "absent"}
	p := &CostProvider{handlers, calls}
	out := types.Schema{Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}, {Name: "handler", Type: types.Varchar}}}
	source, err := p.Prepare(context.Background(), &plan.Acquire{Stream: CostStream, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	sink := &countsOf{counts: map[string]uint64{}}
	if err := source.Start(context.Background(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	s := source.(*handlerCostSource)
	tell := func(found string) {
		b := batch.New([]types.Type{types.Timestamp, types.Varchar, types.Varchar})
		for _, name := range strings.Fields(found) {
			module, function, _ := strings.Cut(name, ".")
			b.AppendRow(types.Time(1), types.Str(function), types.Str(module))
		}
		handlers.sink.Push(b)
		// A result that is not processed yet would be replaced by the next.
		testenv.Until(t, "what was found is looked at", func() bool { return len(s.changes) == 0 })
	}
	// until repeats the same result until the wanted probes are attached, and
	// returns how often.
	until := func(found, want string) (told int) {
		t.Helper()
		testenv.UntilNil(t, "found "+found+" it has attached "+want, func() error {
			if got := calls.String(); got != want {
				tell(found)
				told++
				return fmt.Errorf("attached %q", got)
			}
			return nil
		})
		return told
	}
	until("m.a m.b n.c", "a+b c")
	second := func() *callsSource {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		return calls.attached[slices.IndexFunc(calls.attached, func(s *callsSource) bool { return s.names[0] == "c" })]
	}
	c := second()
	if n := until("m.a n.c", "a c"); n < keepHandlers {
		t.Errorf("b's probes have gone after %d comparisons", n)
	}
	if n := sink.of(withoutProbes); n != 1 || second() != c {
		t.Errorf("%d handlers lost their probes with b's, c's among them: %v", n, second() != c)
	}
	// A handler that is missing now and then keeps its probes.
	for range 5 {
		tell("m.a n.c")
		tell("m.a")
	}
	if calls.String() != "a c" || second() != c {
		t.Errorf("attached %q", calls)
	}
	until("m.a", "a")
	until("m.a m.b", "a b")
	// A handler that cannot be probed is reported each time it is found again,
	// and does not prevent others from being probed.
	until("m.a m.b m.absent m.d", "a b d")
	testenv.Until(t, "what cannot be probed is counted", func() bool { return sink.of("absent: no such function") == 1 })
	until("m.a m.b m.d m.e", "a b d e")
	until("m.a m.b m.d m.e m.absent m.f", "a b d e f")
	testenv.Until(t, "it is counted again", func() bool { return sink.of("absent: no such function") == 2 })
	// Only rows of the current probes are passed on.
	for _, g := range calls.attached {
		b := batch.New(out.Types())
		b.AppendRow(types.Time(1), types.Str(g.names[0]))
		g.sink.Push(b)
	}
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := calls.String(); left != "" || !sink.ended || sink.rows != 5 {
		t.Errorf("left: %q, ended: %v, %d rows", left, sink.ended, sink.rows)
	}
}
