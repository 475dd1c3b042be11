package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/server/introspect"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// shareable is a provider of sources that can be shared: calls of f with arg0,
// of which a test says when they happen.
type shareable struct {
	mu      sync.Mutex
	sources []*sharedSource // that were started and have not ended
	started int
	refuse  error  // of the next Start
	divide  error  // of the next Divide
	delay   func() // before a Start
	wait    func() // before a Divide
	cuts    uint64 // of all sources
}

type sharedSource struct {
	probes.Base
	*shareable
	spec  *plan.Acquire
	sink  probes.Sink
	ended bool
	cuts  uint64
}

func (p *shareable) Streams() []string { return nil }

func (p *shareable) Close() error { return nil }

func (p *shareable) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	return &sharedSource{shareable: p, spec: spec}, nil
}

func (s *sharedSource) Info() probes.Info {
	return probes.Info{
		Sites:   []probes.Site{{Provider: "uprobe", Function: "f", Address: 0x10, Kind: "entry"}},
		Notices: []string{"f is dear"}, Residual: s.spec.Filter, Live: true, Identity: "f",
	}
}

func (s *sharedSource) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c := c.(type) {
	case probes.Divide:
		return r, s.cut(c.Begin, c.Done)
	case probes.CountUnfinished:
		r.Unfinished = s.unfinished(c.From, c.Until)
		return r, nil
	}
	return probes.Unsupported(c)
}

func (s *sharedSource) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	if s.delay != nil {
		s.delay()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuse; err != nil {
		s.refuse = nil
		return err
	}
	s.sink = sink
	s.started++
	s.sources = append(s.sources, s)
	return nil
}

// unfinished has three events under way that began between two cuts, and one of after
// the last.
func (s *sharedSource) unfinished(from, until probes.Cut) uint64 {
	if until.Number == 0 {
		until.Number = s.cuts + 1
	}
	n := 3 * (until.Number - from.Number)
	if until.Number > s.cuts {
		n -= 2
	}
	return n
}

func (s *sharedSource) cut(begin func(probes.Cut), done func()) error {
	if s.wait != nil {
		s.wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.cuts++
	s.shareable.cuts++
	begin(probes.Cut{At: 100, Number: s.cuts})
	s.rows(99, 100) // late, and early
	s.sink.Lost("of before", 1)
	if err := s.divide; err != nil {
		s.divide = nil
		return err
	}
	done()
	return nil
}

func (s *sharedSource) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sink != nil && !s.ended {
		s.end(nil)
	}
	return nil
}

func (s *sharedSource) end(err error) {
	s.ended = true
	for i, o := range s.sources {
		if o == s {
			s.sources = append(s.sources[:i], s.sources[i+1:]...)
			break
		}
	}
	s.sink.End(err)
}

// rows gives a batch with a call at each of these times, with that as arg0.
func (s *sharedSource) rows(times ...int64) {
	b := batch.New(s.spec.Out.Types())
	for _, t := range times {
		vs := make([]types.Value, len(b.Cols))
		for i, f := range s.spec.Out.Fields {
			vs[i] = types.Int(t)
			if f.Type == types.Timestamp {
				vs[i] = types.Time(t)
			}
		}
		b.AppendRow(vs...)
	}
	s.sink.Push(b)
}

// call has a call at each of these times, seen by all sources that run.
func (p *shareable) call(times ...int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		s.rows(times...)
	}
}

// shareSession opens a session whose function_start is p's.
func shareSession(t *testing.T, p *shareable, o Options) *session {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e.providers["function_start"] = p
	s, err := newSession(t.Context(), e, wire.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); e.Close() })
	return s
}

const eachCall = "SELECT arg0 FROM function_start WHERE pid = 1"

// finish stops a query and returns its first column, and what it lost and counted.
func finish(t *testing.T, r wire.Result) string {
	t.Helper()
	r.Stop()
	return rest(t, r)
}

// rest is finish for a query that ends by itself.
func rest(t *testing.T, r wire.Result) string {
	t.Helper()
	out := ""
	for {
		ev, err := r.Next(t.Context())
		if err != nil {
			for _, l := range append(r.Summary().Losses, r.Summary().Counts...) {
				out += fmt.Sprintf(" %d %s", l.N, l.Cause)
			}
			if errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "EOF") {
				out += " error: " + err.Error()
			}
			return strings.TrimSpace(out)
		}
		if ev.Kind == wire.Rows {
			for i := range ev.Batch.Len() {
				out += fmt.Sprintf(" %d", ev.Batch.Cols[0].Int[ev.Batch.Row(i)])
			}
			ev.Batch.Release()
		}
	}
}

// Queries that come and go have one source, and each has the rows, the losses
// and the counts of its own time: the newcomer none of before it joined, who
// leaves none of after.
func TestShare(t *testing.T) {
	p := &shareable{}
	s := shareSession(t, p, Options{})
	first := execute(t, s, eachCall)
	p.call(1, 2)
	second := execute(t, s, eachCall)
	p.call(98, 103)
	p.sources[0].sink.Lost("of both", 2)
	if got := finish(t, first); got != "1 2 99 100 98 103 99 2 of before 2 of both 6 unfinished" {
		t.Errorf("the first: %s", got)
	}
	third := execute(t, s, eachCall)
	p.call(104)
	if p.started != 1 || len(p.sources) != 1 {
		t.Errorf("%d sources were started, %d run", p.started, len(p.sources))
	}
	if got := finish(t, second); got != "100 103 100 100 104 3 of before 2 of both 9 unfinished" {
		t.Errorf("the second: %s", got)
	}
	p.call(105)
	if got := finish(t, third); got != "100 104 100 105 1 of before" {
		t.Errorf("the third: %s", got)
	}
	if len(p.sources) != 0 || len(s.e.shares.Queries()) != 0 {
		t.Errorf("%d sources still run, %d are kept", len(p.sources), len(s.e.shares.Queries()))
	}
	execute(t, s, eachCall)
	if p.started != 2 {
		t.Errorf("%d sources were started", p.started)
	}
}

// Events that take time are of the queries that were there when they began; nor
// are they anybody else's unfinished ones.
func TestShareOfWhatTakesTime(t *testing.T) {
	p := &shareable{}
	s := shareSession(t, p, Options{})
	first, second := execute(t, s, eachCall), execute(t, s, eachCall)
	b := batch.New(p.sources[0].spec.Out.Types())
	for _, at := range []int64{101, 102, 103} {
		vs := make([]types.Value, len(b.Cols))
		for i := range vs {
			vs[i] = types.Value{Type: b.Cols[i].Type, I: at}
		}
		b.AppendRow(vs...)
	}
	p.sources[0].sink.(probes.SharedSink).PushBegun(b, []int64{50, 100, 99})
	if got := finish(t, second); got != "100 102 1 of before 3 unfinished" {
		t.Errorf("the second: %s", got)
	}
	if got := finish(t, first); got != "99 100 101 102 103 99 100 2 of before" {
		t.Errorf("the first: %s", got)
	}
}

// What acquires something else, or was told not to share, has its own source.
func TestNotShared(t *testing.T) {
	for _, other := range []string{
		"SELECT arg1 FROM function_start WHERE pid = 1",
		"SELECT arg0, arg1 FROM function_start WHERE pid = 1",
		"SELECT arg0 FROM function_start WHERE pid = 2",
		"SELECT arg0 FROM function_start WHERE pid = 1 AND function_name = 'f'",
		"SELECT arg0 FROM function_start WHERE pid = 1 AND arg0 > 1",
		"SELECT COUNT(arg0) FROM function_start WHERE pid = 1",
		"SET sharing = off",
		"SET lateness = 1s",
	} {
		p := &shareable{}
		s := shareSession(t, p, Options{})
		execute(t, s, eachCall)
		r := execute(t, s, other)
		if strings.HasPrefix(other, "SET") {
			r = execute(t, s, eachCall)
		}
		if p.started != 2 {
			t.Errorf("%s: %d sources", other, p.started)
		}
		r.Close()
	}
	// What differs above the acquisition only is shared.
	p := &shareable{}
	s := shareSession(t, p, Options{})
	execute(t, s, eachCall)
	execute(t, s, "SELECT arg0 + 1 AS next FROM function_start WHERE pid = 1 LIMIT 3")
	if p.started != 1 {
		t.Errorf("%d sources", p.started)
	}
}

// A source that ends by itself ends all its parts, with its error; who comes
// then has another.
func TestSharedSourceEnds(t *testing.T) {
	p := &shareable{}
	s := shareSession(t, p, Options{})
	a, b := execute(t, s, eachCall), execute(t, s, eachCall)
	p.mu.Lock()
	p.sources[0].end(errors.New("the target burst"))
	p.mu.Unlock()
	for _, r := range []wire.Result{a, b} {
		if got := rest(t, r); !strings.HasSuffix(got, "error: the target burst") {
			t.Errorf("got %s", got)
		}
	}
	execute(t, s, eachCall)
	if p.started != 2 {
		t.Errorf("%d sources were started", p.started)
	}
}

// Where what was acquired cannot be divided, nobody is told a wrong result.
func TestFailedDivide(t *testing.T) {
	p := &shareable{divide: errors.New("the map cannot be read")}
	s := shareSession(t, p, Options{})
	first := execute(t, s, eachCall)
	if _, err := s.Execute(t.Context(), eachCall); err == nil || err.Error() != "the map cannot be read" {
		t.Errorf("the newcomer: %v", err)
	}
	if got := rest(t, first); !strings.HasSuffix(got, "error: the map cannot be read") {
		t.Errorf("the first: %s", got)
	}
	if len(p.sources) != 0 || len(s.e.shares.Queries()) != 0 {
		t.Errorf("%d sources still run, %d are kept", len(p.sources), len(s.e.shares.Queries()))
	}
}

// A second query waits for the first to be armed; if that is refused, it tries
// itself.
func TestShareStartsTogether(t *testing.T) {
	for _, refused := range []error{nil, errors.New("refused")} {
		p := &shareable{refuse: refused, delay: sync.OnceFunc(func() {
			testenv.Until(t, "the second query waits", func() bool { return testenv.Blocked("TestShareStartsTogether.func") == 1 })
		})}
		s := shareSession(t, p, Options{})
		var errs [2]error
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() {
				r, err := s.Execute(t.Context(), eachCall)
				if errs[i] = err; err == nil {
					t.Cleanup(func() { r.Close() })
				}
			})
		}
		both.Wait()
		if p.started != 1 || refused == nil && errors.Join(errs[:]...) != nil || refused != nil && (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("refused %v: %d sources, %v", refused, p.started, errs)
		}
	}
}

// Queries that begin while the probes of the first are attached join at one cut, and those
// that end while another query leaves end with one. (One that is about to wait comes a round later.)
func TestQueriesJoinAndLeaveTogether(t *testing.T) {
	const others = 5
	waiting := func(call string) func() {
		return sync.OnceFunc(func() {
			testenv.Until(t, "the others wait", func() bool { return testenv.Blocked(call) == others })
		})
	}
	first, join := make(chan bool), waiting("sharing.(*share).join")
	p := &shareable{delay: sync.OnceFunc(func() { close(first); join() })}
	s := shareSession(t, p, Options{})
	var results [1 + others]wire.Result
	var all sync.WaitGroup
	begin := func(i int) {
		var err error
		if results[i], err = s.Execute(t.Context(), eachCall); err != nil {
			t.Error(err)
		}
	}
	all.Go(func() { begin(0) })
	<-first
	for i := 1; i <= others; i++ {
		all.Go(func() { begin(i) })
	}
	all.Wait()
	p.call(101)
	if p.started != 1 || p.cuts > 2 {
		t.Errorf("%d sources, %d cuts", p.started, p.cuts)
	}
	leaving, leave := make(chan bool), waiting("sharing.(*Part).Stop")
	p.wait = sync.OnceFunc(func() { close(leaving); leave() })
	end := func(r wire.Result) {
		if got := finish(t, r); !strings.Contains(got, "100 101") || strings.Contains(got, "error") {
			t.Error(got)
		}
	}
	all.Go(func() { end(results[0]) })
	<-leaving
	for _, r := range results[1:] {
		all.Go(func() { end(r) })
	}
	all.Wait()
	if p.cuts > 4 || len(p.sources) != 0 || len(s.e.shares.Queries()) != 0 {
		t.Errorf("%d cuts, %d sources still run, %d are kept", p.cuts, len(p.sources), len(s.e.shares.Queries()))
	}
}

// Whoever does not read loses rows, which are counted; the others lose none.
func TestSlowReaderAloneLosesRows(t *testing.T) {
	p := &shareable{}
	s := shareSession(t, p, Options{QueueBatches: 4})
	slow := execute(t, s, eachCall)
	fast := execute(t, s, eachCall)
	read := make(chan string)
	go func() { read <- rest(t, fast) }()
	for i := range int64(500) {
		p.call(1000 + i)
		q := s.e.running()[1]
		testenv.Until(t, "the fast one has read the row", func() bool { return q.Tally.Rows.Load() >= uint64(i) }) // 100 was the first
	}
	fast.Stop()
	if got := <-read; strings.Contains(got, "too slow") || len(strings.Fields(got)) < 500 {
		t.Errorf("the fast one: %s", got)
	}
	got := finish(t, slow)
	rows := strings.Count(strings.Split(got, " of before")[0], " 1")
	var lost int
	for _, l := range slow.Summary().Losses {
		if l.Cause == "query too slow" {
			lost = int(l.N)
		}
	}
	if lost == 0 || rows == 0 {
		t.Errorf("the slow one: %s", got)
	}
}

// Notices that several streams of a query carry are said once.
func TestNoticesOnce(t *testing.T) {
	s := shareSession(t, &shareable{}, Options{})
	r := execute(t, s, "SELECT a.arg0 FROM function_start a WINDOW JOIN function_start b WINDOW 1s WHERE a.pid = 1 AND b.pid = 1 AND b.arg0 > 3")
	if got, want := r.(*query.Result).Notices, []string{"f is dear"}; !reflect.DeepEqual(got, want) {
		t.Errorf("notices: %q", got)
	}
}

// SHOW, sys streams and EXPLAIN say what is shared with which query.
func TestExplainReportsSharing(t *testing.T) {
	s := shareSession(t, &shareable{}, Options{})
	if got := lines(t, execute(t, s, "EXPLAIN "+eachCall)); strings.Contains(got, "shared") {
		t.Errorf("EXPLAIN of the first: %s", got)
	}
	for range 2 {
		execute(t, s, eachCall)
	}
	if got := lines(t, execute(t, s, "EXPLAIN "+eachCall)); !strings.Contains(got, "\n    shared with query 1, 2\n") {
		t.Errorf("EXPLAIN of the third: %s", got)
	}
	execute(t, s, "SELECT arg1 FROM function_start WHERE pid = 1")
	var got []string
	for _, row := range s.e.system.Snapshot("sys.queries", introspect.Users{}) {
		got = append(got, row[8].S)
	}
	if want := []string{"2", "1", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("shares_with: %q", got)
	}
	var sources []probes.Source
	for source := range s.e.system.Users(introspect.Users{}) {
		sources = append(sources, source)
	}
	if n, list := introspect.QueriesOf(sources, s.e.system.Users(introspect.Users{})); n != 3 || list != "(1, 2), 3" {
		t.Errorf("%d queries: %s", n, list)
	}
}
