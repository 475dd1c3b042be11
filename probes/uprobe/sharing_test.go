package uprobe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// steps is a target that does a round of calls for each line it reads.
const steps = prelude + `
NOINLINE long alpha(long n) { sink += n; return n + 1; }
NOINLINE long beta(long n) { sink += n; return alpha(n) + 1; }
int main(void) {
	char b[16];
	puts("ready"); fflush(stdout);
	for (long i = 0; fgets(b, sizeof b, stdin); i++) {
		for (int k = 0; k < 10; k++) beta(i);
		puts("done"); fflush(stdout);
	}
}
`

func (r *running) round() {
	r.t.Helper()
	r.step()
	if line := r.line(); line != "done" {
		r.t.Fatalf("target said %q", line)
	}
}

func (r *running) end() {
	r.in.Close()
	r.cmd.Wait()
	r.ended = true
}

// Two queries over the same function have separate links at one site. Each gets the
// requested events of its own run time, and detaches its own links.
func TestTwoQueriesAtOneSite(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		first, a := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("alpha"), "timestamp", "duration"))
		r.round()
		second, b := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("alpha", "beta"), "timestamp", "function_name", "arg0", "thread_name"))
		r.round()
		queries := map[string]int{}
		hits := map[string]uint64{}
		for _, s := range p.Probes() {
			queries[s.Function], hits[s.Function] = len(s.Sources), s.Hits
		}
		if diff := cmp.Diff(map[string]int{"alpha": 2, "beta": 1}, queries); diff != "" {
			t.Error("queries:", diff)
		}
		if diff := cmp.Diff(map[string]uint64{"alpha": 20, "beta": 10}, hits); diff != "" {
			t.Error("hits:", diff)
		}
		ofFirst, ofSecond := 2, 2 // links
		switch o.Links {
		case "session":
			ofFirst, ofSecond = 1, 1
		case "perf":
			ofFirst, ofSecond = 2, 4
		}
		if n := linkCount(t, target); n != ofFirst+ofSecond {
			t.Errorf("%d links, want %d", n, ofFirst+ofSecond)
		}
		first.Stop()
		r.round()
		if n := linkCount(t, target); n != ofSecond {
			t.Errorf("%d links while the second query runs, want %d", n, ofSecond)
		}
		second.Stop()
		if n := linkCount(t, target); n != 0 {
			t.Errorf("%d links remain", n)
		}
		r.round()
		r.end()
		if n := len(a.wait(t).rows); n != 20 {
			t.Errorf("first query: %d rows, want 20", n)
		}
		if diff := cmp.Diff(map[string]int{"alpha": 20, "beta": 20}, tally(b.wait(t).strings("function_name"))); diff != "" {
			t.Error("second query:", diff)
		}
		want := map[int64]int{1: 20, 2: 20}
		if diff := cmp.Diff(want, tally(b.ints("arg0"))); diff != "" {
			t.Error("arguments:", diff)
		}
		for _, r := range []*record{a, b} {
			if len(r.lost)+len(r.counts) > 0 {
				t.Errorf("lost %v, counts %v", r.lost, r.counts)
			}
		}
	})
}

// Queries start and stop at one site; the remaining ones continue.
func TestQueriesComeAndGo(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	both, _ := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha", "beta"), "function_name"))
	alpha, a := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha"), "function_name"))
	both.Stop()
	r.round()
	if s := p.Probes(); len(s) != 1 || s[0].Function != "alpha" || s[0].Hits != 10 {
		t.Errorf("attached: %+v", s)
	}
	beta, b := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("beta"), "function_name"))
	r.round()
	alpha.Stop()
	beta.Stop()
	r.end()
	if n := len(a.wait(t).rows); n != 20 {
		t.Errorf("alpha: %d rows, want 20", n)
	}
	if n := len(b.wait(t).rows); n != 10 {
		t.Errorf("beta: %d rows, want 10", n)
	}
}

// A call under way when a query begins does not belong to the query, even where an older
// query's probe observes it; nor is it the query's unfinished call.
func TestCallsBelongToTheQueryThatSawThemBegin(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(void) { return sink++; }
NOINLINE long slow(void) { leaf(); ready(); return sink++; }
int main(void) { slow(); slow(); }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		older, a := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("slow", "leaf"), "function_name"))
		// The first slow began before any query; the second is under way now.
		r.step()
		r.line()
		_, b := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("slow"), "function_name"))
		older.Stop()
		r.finish(success)
		if diff := cmp.Diff(map[string]int{"leaf": 1}, tally(a.wait(t).strings("function_name"))); diff != "" {
			t.Error("older query:", diff)
		}
		if diff := cmp.Diff(map[string]uint64{"unfinished": 1}, a.counts); diff != "" {
			t.Error("older query:", diff)
		}
		if n := len(b.wait(t).rows); n != 0 || len(b.counts) != 0 {
			t.Errorf("younger query: %d rows, counts %v", n, b.counts)
		}
	})
}

// Events that do not fit into the ring are counted: rows and losses add up to the calls.
func TestRingOverflowIsCounted(t *testing.T) {
	testenv.NeedUprobes(t)
	const calls = 20_000
	target := testenv.CompileCText(t, prelude+fmt.Sprintf(`
NOINLINE long busy(long n) { sink += n; return n; }
NOINLINE long calm(long n) { sink += n; return n; }
int main(void) { ready(); calm(1); for (int i = 0; i < %d; i++) busy(i); ready(); calm(2); }
`, calls), "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
			t.Run(stream, func(t *testing.T) {
				o.RingBytes = 4096
				p := provider(t, o)
				r := run(t, target)
				src, err := p.Prepare(t.Context(), testplan.Acquire(stream, r.target(), testplan.Named("busy"), "timestamp"))
				if err != nil {
					t.Fatal(err)
				}
				sink := newRecord(testplan.Acquire(stream, r.target(), nil, "timestamp"))
				sink.hold = make(chan struct{}) // the reader blocks on it in its first Push
				if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
					t.Fatal(err)
				}
				_, other := start(t, p, testplan.Acquire(stream, r.target(), testplan.Named("calm"), "timestamp"))
				r.step()
				r.line() // "ready" again: all is called
				close(sink.hold)
				// The reader empties the ring before there is room for calm: draining in
				// between starts after all calls of busy.
				p.mu.Lock()
				p.reader.Do(func() {})
				p.reader.Do(func() {})
				p.mu.Unlock()
				r.finish(success)
				sink.wait(t)
				lost := sink.lost["ring buffer full"]
				if got := uint64(len(sink.rows)) + lost; got != calls {
					t.Errorf("%d rows + %d lost = %d, want %d", len(sink.rows), lost, got, calls)
				}
				if lost == 0 {
					t.Error("a ring of a page held everything: the test tests nothing")
				}
				if n := len(other.wait(t).rows); n != 2 || len(other.lost) > 0 {
					t.Errorf("another query, of a calm function: %d rows, lost %v; want 2 and none", n, other.lost)
				}
				if sink.counts["unfinished"] > 0 {
					t.Errorf("counts %v", sink.counts)
				}
			})
		}
	})
}

// Watermarks advance while nothing happens, and no row follows that is older than one.
func TestWatermarksOfAnIdleSource(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{Lateness: 50 * time.Millisecond})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha"), "timestamp"))
	began := time.Now().UnixNano()
	testenv.Until(t, "there are watermarks while nothing happens", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		n := len(got.marks)
		return n >= 3 && got.marks[n-1] > began
	})
	r.round()
	r.end()
	got.wait(t)
	now := time.Now().UnixNano()
	if !slices.IsSorted(got.marks) || got.late > 0 {
		t.Errorf("watermarks fall back, or %d rows came behind them", got.late)
	}
	if last := got.marks[len(got.marks)-1]; last <= began || last >= now {
		t.Errorf("the last watermark is %v after the beginning, %v before the end", time.Duration(last-began), time.Duration(now-last))
	}
	for _, ts := range got.ints("timestamp") {
		if ts < began || ts > now {
			t.Fatalf("a timestamp is %v after the beginning, %v before the end", time.Duration(ts-began), time.Duration(now-ts))
		}
	}
}

func TestLimitOfProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{MaxProbes: 1})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha", "beta"), "timestamp")
	_, err := p.Prepare(t.Context(), spec)
	if want := "2 functions would be probed, and at most 1 may be at a time"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("refusal: %v, want %s", err, want)
	}
	// The same where it takes two queries to get there.
	src, a := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha"), "timestamp"))
	two, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("beta"), "timestamp"))
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Start(t.Context(), newRecord(spec), probes.Options{}); err == nil || !strings.Contains(err.Error(), "at most 1") {
		t.Errorf("second query: %v", err)
	}
	r.round()
	src.Stop()
	if n := len(a.wait(t).rows); n != 10 {
		t.Errorf("%d rows after another query was refused, want 10", n)
	}
	r.end()
}

// Every function of a large program at once, through one link; or a few of them, each
// with its own links.
func TestManyFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	const functions, rounds = 2000, 3
	var src strings.Builder
	src.WriteString(prelude)
	for i := range functions {
		fmt.Fprintf(&src, "NOINLINE void many%d(void) { sink += %d; }\n", i, i)
	}
	fmt.Fprintf(&src, "int main(void) { ready(); for (int r = 0; r < %d; r++) {", rounds)
	for i := range functions {
		fmt.Fprintf(&src, " many%d();", i)
	}
	src.WriteString(" } }\n")
	target := testenv.CompileCText(t, src.String(), "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		pattern, first, links := "many%", 0, map[string]int{"": 2, "session": 1, "multi": 2, "perf": 2 * 11} // "": exits
		if o.Links == "perf" {
			pattern, first = "many199%", functions-10
		}
		armed, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant(pattern)), "function_name", "depth"))
		want := links[o.Links]
		if o.Links == "perf" { // they do not identify their file
			want += len(armed.(*source).resolution.Landmarks)
		}
		if n := linkCount(t, target); n != want {
			t.Errorf("%d links, want %d", n, want)
		}
		r.finish(success)
		counts := tally(got.wait(t).strings("function_name"))
		for i := first; i < functions; i++ {
			if n := counts[fmt.Sprintf("many%d", i)]; n != rounds {
				t.Fatalf("many%d: %d calls, want %d; notices %v", i, n, rounds, armed.Info().Notices)
			}
		}
	})
}

// Sources may be stopped in any phase, and twice.
func TestStopAtAnyTime(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha"), "timestamp")
	prepared, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	prepared.Stop()
	if err := prepared.Start(t.Context(), newRecord(spec), probes.Options{}); err == nil {
		t.Error("a stopped source was started")
	}
	src, got := start(t, p, spec)
	done := make(chan struct{})
	for range 3 {
		go func() { src.Stop(); done <- struct{}{} }()
	}
	for range 3 {
		<-done
	}
	got.wait(t)
	// After its provider was closed.
	q := New(Options{Match: testplan.Match})
	orphan, ended := start(t, q, spec)
	q.Close()
	if n := linkCount(t, target); n != 0 {
		t.Errorf("%d links after the provider was closed", n)
	}
	orphan.Stop()
	ended.wait(t)
	// A target that has already ended.
	late, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := late.Start(t.Context(), newRecord(spec), probes.Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", spec.Target.PIDs[0])) {
		t.Errorf("started on a process that has ended: %v", err)
	}
}

func TestSitesSayWhatWillBeDone(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		src, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("beta"), "timestamp"))
		if err != nil {
			t.Fatal(err)
		}
		defer src.Stop()
		s := src.Info().Sites
		want := probes.Site{Provider: "uprobe", Function: "beta", Module: "target", Kind: "entry+return (" + o.Links + ")"}
		if o.Returns == plan.ExitReturns {
			if len(s) != 2 || s[1].Kind != "exit" || s[1].Address <= s[0].Address || s[1].Method == "" || s[1].CostNs == 0 {
				t.Fatalf("sites %+v, want an entry and its exit", s)
			}
			want.Kind = "entry+exits (1)"
		} else if len(s) != 1 {
			t.Fatalf("%d sites, want 1", len(s))
		}
		if s[0].Address == 0 || s[0].CostNs == 0 || s[0].Method == "" {
			t.Errorf("incomplete: %+v", s[0])
		}
		s[0].Address, s[0].Behind, s[0].CostNs, s[0].Method = 0, 0, 0, ""
		if diff := cmp.Diff(want, s[0]); diff != "" {
			t.Error(diff)
		}
		if !src.Info().Live || src.Info().Residual != nil {
			t.Error("calls happen whether or not anybody looks, and there is no filter")
		}
	})
}

// The programs of a query that has ended may run a little longer, while a process that
// is being started has copies of its links. Their events are not attributed to another
// query.
func TestEventsOfAnEndedQuery(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, steps, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("beta"), "function_name")) // keeps the reader running
	ended, _ := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha", "beta"), "function_name"))
	for _, l := range p.active[ended.(*source)].Links {
		for _, fd := range l.Fds {
			held, err := unix.Dup(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(held)
		}
	}
	ended.Stop()
	_, next := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("alpha"), "function_name"))
	r.round()
	r.end()
	if diff := cmp.Diff(map[string]int{"alpha": 10}, tally(next.wait(t).strings("function_name"))); diff != "" {
		t.Error(diff)
	}
}
