package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/server/introspect"
	"endoscope/server/wire"
)

// aggregator is a provider and its one source: calls of f that the kernel, so
// it says, has aggregated. It stands for what a test cannot time otherwise.
type aggregator struct {
	probes.Base
	declines bool                      // it does not aggregate
	collect  func(a *aggregator) error // what Collect does
	stop     func(a *aggregator)       // what Stop does before the end
	spec     *plan.Acquire
	sink     probes.Sink

	mu    sync.Mutex // one call of the sink at a time
	ended sync.Once
}

func (a *aggregator) Streams() []string { return nil }
func (a *aggregator) Close() error      { return nil }
func (a *aggregator) Prepare(_ context.Context, spec *plan.Acquire) (probes.Source, error) {
	a.spec = spec
	return a, nil
}
func (a *aggregator) Info() probes.Info {
	return probes.Info{
		Sites: []probes.Site{{Provider: "uprobe", Function: "f", Module: "prog", Address: 0x10, Kind: "entry"}},
		Live:  true, Aggregates: !a.declines, Aggregation: "array by function",
	}
}
func (a *aggregator) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	a.sink = sink
	return nil
}

func (a *aggregator) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Collect); !ok || a.declines {
		return probes.Unsupported(c)
	}
	if a.collect == nil {
		return probes.Reply{}, nil
	}
	return probes.Reply{}, a.collect(a)
}

func (a *aggregator) Stop() error {
	if a.sink == nil {
		return nil
	}
	a.ended.Do(func() {
		if a.stop != nil {
			a.stop(a)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.sink.End(nil)
	})
	return nil
}

// calls gives n calls of f as a partial row of COUNT(*) by function_name.
func (a *aggregator) calls(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := batch.New(a.spec.Partial.Out.Types())
	b.AppendRow(types.Time(0), types.Str("f"), types.Int(n))
	a.sink.Partial(b)
}

// call gives one call of f.
func (a *aggregator) call() {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := batch.New(a.spec.Out.Types())
	b.AppendRow(types.Time(0), types.Str("f"))
	a.sink.Push(b)
}

// sessionOver opens a session whose function_start comes from a.
func sessionOver(t *testing.T, a *aggregator, o wire.Options) *session {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.providers["function_start"] = a
	s, err := newSession(t.Context(), e, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		e.Close()
	})
	return s
}

const countCalls = "SELECT function_name, COUNT(*) FROM function_start WHERE pid = 1 GROUP BY function_name"

// shown reads a result to its end, calling after each result that it showed.
// The last column of its rows, and "." for each end of a result, are what it
// returns.
func shown(t *testing.T, r wire.Result, after func(n int)) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var b strings.Builder
	for n := 1; ; {
		ev, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		switch ev.Kind {
		case wire.Rows:
			for i := range ev.Batch.Len() {
				c := &ev.Batch.Cols[len(ev.Batch.Cols)-1]
				fmt.Fprintf(&b, "%d", c.Int[ev.Batch.Row(i)])
			}
			ev.Batch.Release()
		case wire.Flush, wire.Preview:
			b.WriteString(".")
			after(n)
			n++
		}
	}
}

func execute(t *testing.T, s *session, statement string) wire.Result {
	t.Helper()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Before each result of EMIT EVERY the source is asked once, and what it gives
// then is in it; the last result has what Stop gives. Single calls count too.
func TestCollectBeforeEachResult(t *testing.T) {
	a := &aggregator{
		collect: func(a *aggregator) error {
			time.Sleep(3 * time.Millisecond) // it is slow
			a.calls(1)
			return nil
		},
		stop: func(a *aggregator) {
			a.calls(100)
			a.call()
		},
	}
	r := execute(t, sessionOver(t, a, wire.Options{}), countCalls+" EMIT EVERY 10ms")
	got, err := shown(t, r, func(n int) {
		if n == 3 {
			r.Stop()
		}
	})
	// More intervals may end before Stop is heard.
	want := "1.2.3."
	n := 3
	for ; n < 1000 && strings.HasPrefix(got, fmt.Sprintf("%s%d.", want, n+1)); n++ {
		want = fmt.Sprintf("%s%d.", want, n+1)
	}
	if want = fmt.Sprintf("%s%d.", want, n+101); err != nil || got != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
}

// A preview shows what there is, and the end has everything.
func TestCollectBeforePreview(t *testing.T) {
	a := &aggregator{
		collect: func(a *aggregator) error { a.calls(10); return nil },
		stop:    func(a *aggregator) { a.calls(1) },
	}
	r := execute(t, sessionOver(t, a, wire.Options{Live: 10 * time.Millisecond}), countCalls)
	got, err := shown(t, r, func(n int) {
		if n == 2 {
			r.Stop()
		}
	})
	if err != nil || !strings.HasPrefix(got, "10.20.") || !strings.HasSuffix(got, "1.") {
		t.Errorf("%s, %v", got, err)
	}
}

// An interval that ends with the query has everything: it is shown by the end if
// Stop was asked first, and else again with what Stop gave.
func TestCollectAtTheEnd(t *testing.T) {
	a := &aggregator{stop: func(a *aggregator) { a.calls(7) }}
	r := execute(t, sessionOver(t, a, wire.Options{}), countCalls+" EMIT EVERY 30ms FOR 30ms")
	if got, err := shown(t, r, func(int) {}); err != nil || strings.TrimPrefix(got, ".") != "7." {
		t.Errorf("%s, %v", got, err)
	}
}

// A source that takes its time does not keep the query from ending, nor what it
// gives meanwhile from being taken.
func TestSlowCollect(t *testing.T) {
	asked, stopped := make(chan bool), make(chan bool)
	a := &aggregator{}
	a.collect = func(a *aggregator) error {
		for range 2000 { // far more than the queue has room for
			a.calls(1)
		}
		asked <- true
		<-stopped
		return nil
	}
	a.stop = func(*aggregator) { close(stopped) }
	r := execute(t, sessionOver(t, a, wire.Options{}), countCalls+" EMIT EVERY 1ms")
	<-asked
	r.Stop()
	if got, err := shown(t, r, func(int) {}); err != nil || got != "2000." {
		t.Errorf("%s, %v", got, err)
	}
}

// A client that goes away while the source is being asked leaves nothing behind.
func TestCloseDuringCollect(t *testing.T) {
	asked, stopped := make(chan bool), make(chan bool)
	a := &aggregator{}
	a.collect = func(*aggregator) error {
		asked <- true
		<-stopped
		return nil
	}
	a.stop = func(a *aggregator) {
		close(stopped)
		a.calls(1) // nobody is there any more
	}
	r := execute(t, sessionOver(t, a, wire.Options{}), countCalls+" EMIT EVERY 1ms")
	<-asked
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Numbers that cannot be read are not shown as if they were none.
func TestFailedCollect(t *testing.T) {
	a := &aggregator{collect: func(*aggregator) error { return errors.New("the map cannot be read") }}
	r := execute(t, sessionOver(t, a, wire.Options{}), countCalls+" EMIT EVERY 1ms")
	if got, err := shown(t, r, func(int) {}); got != "" || err == nil || err.Error() != "the map cannot be read" {
		t.Errorf("%s, %v", got, err)
	}
}

// EXPLAIN says what is done, not what was offered.
func TestExplainAggregator(t *testing.T) {
	for _, c := range []struct {
		name     string
		declines bool
		before   string
		want     string
	}{
		{"aggregates", false, "", `
			aggregate count(*) by function_name emit final  (server, merges partial rows)
			  acquire function_start [timestamp, function_name] target pid = 1 where arg0 > 3 partial: count(*) by function_name  (kernel)
			    uprobe f in prog at 0x10: entry
			    aggregate count(*) by function_name: array by function  (kernel)
			    filter arg0 > 3  (kernel)`},
		{"declines", true, "", `
			aggregate count(*) by function_name emit final  (server)
			  acquire function_start [timestamp, function_name] target pid = 1 where arg0 > 3  (kernel)
			    uprobe f in prog at 0x10: entry
			    filter arg0 > 3  (kernel)`},
		{"off", false, "SET kernel = off", `
			aggregate count(*) by function_name emit final  (server)
			  acquire function_start [timestamp, function_name] target pid = 1 where arg0 > 3  (kernel)
			    uprobe f in prog at 0x10: entry
			    filter arg0 > 3  (kernel)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionOver(t, &aggregator{declines: c.declines}, wire.Options{})
			if c.before != "" {
				execute(t, s, c.before)
			}
			statement := strings.Replace(countCalls, "pid = 1", "pid = 1 AND arg0 > 3", 1)
			got := lines(t, execute(t, s, "EXPLAIN "+statement))
			want := strings.ReplaceAll(c.want, "\n\t\t\t", "\n")[1:] + "\n"
			if i := strings.Index(got, "rules:"); i < 0 || strings.ReplaceAll(got[:i], ", arg0]", "]") != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if offered := strings.Contains(got, "aggregate-into-acquisition"); offered == (c.before != "") {
				t.Errorf("rules: %s", got)
			}
		})
	}
}

// lines is the first column of a result.
func lines(t *testing.T, r wire.Result) string {
	t.Helper()
	var b strings.Builder
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == wire.Rows {
			for i := range ev.Batch.Len() {
				b.WriteString(ev.Batch.Cols[0].Value(ev.Batch.Row(i)).S + "\n")
			}
			ev.Batch.Release()
		}
	}
}

// EXPLAIN ANALYZE and the sys streams count both kinds of rows.
func TestCountsOfPartialRows(t *testing.T) {
	a := &aggregator{stop: func(a *aggregator) {
		a.calls(1000)
		a.calls(2000)
		a.call()
	}}
	got := lines(t, execute(t, sessionOver(t, a, wire.Options{}), "EXPLAIN ANALYZE "+countCalls+" FOR 1ms"))
	for _, want := range []string{
		"(server, merges partial rows, rows 3 -> 1, ", "(kernel, rows 3 -> 3, ",
		": 1 tuples acquired, 2 partial rows from the kernel, 1 rows given",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	a = &aggregator{}
	s := sessionOver(t, a, wire.Options{})
	execute(t, s, countCalls)
	a.calls(5)
	testenv.UntilNil(t, "sys.operators counts the rows", func() error {
		got = ""
		for _, row := range s.e.system.Snapshot("sys.operators", introspect.Users{}) {
			got += fmt.Sprintf("%.9s %s %d; ", row[2].S, row[3].S, row[4].I)
		}
		if got != "aggregate server 1; acquire f kernel 1; " {
			return errors.New(got)
		}
		return nil
	})
	if q := s.e.system.Snapshot("sys.queries", introspect.Users{}); q[0][6].I != 1 {
		t.Errorf("sys.queries: %v", q)
	}
}
