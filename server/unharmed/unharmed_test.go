package unharmed

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// soak reports whether the long tests run.
func soak() bool { return os.Getenv("ENDOSCOPE_SOAK") != "" }

// everyBuild runs a test for each build of each program.
func everyBuild(t *testing.T, f func(t *testing.T, b *build)) {
	testenv.NeedUprobes(t)
	for _, p := range programs(t) {
		builds := p.builds
		if soak() {
			builds = append(slices.Clone(builds), p.more...)
		}
		for _, flags := range builds {
			t.Run(p.name()+" "+flags, func(t *testing.T) {
				t.Parallel()
				f(t, p.compile(t, flags))
			})
		}
	}
}

// same compares a run with the unobserved one.
func same(t *testing.T, what string, want, got outcome) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".calls" || p.Last().String() == ".took" }, cmp.Ignore())); diff != "" {
		t.Errorf("%s: untouched and observed: %s", what, diff)
	}
}

const rounds = 2

// TestUnharmed runs each program under the query over all of its functions: started
// by the query, observed by its executable, and attached and detached in mid-run.
func TestUnharmed(t *testing.T) {
	everyBuild(t, func(t *testing.T, b *build) {
		want := b.untouched(t, rounds)
		if want.End != "exit 0" || len(want.calls) == 0 {
			t.Fatalf("untouched, the program ends with %s and prints %s", want.End, want.Transcript)
		}
		t.Run("held", func(t *testing.T) { held(t, b, want, "auto") })
		// Without session links the kernel sets its return trap before the stack is
		// inspected.
		if !b.stacks {
			t.Run("held, pairs of links", func(t *testing.T) { held(t, b, want, "multi") })
		}
		if !b.stacks && b.libs != "" && soak() { // with its libraries linked in, a program has too many functions
			t.Run("held, perf events", func(t *testing.T) { held(t, b, want, "perf") })
		}
		t.Run("counted", func(t *testing.T) { counted(t, b, want) })
		for _, m := range b.observed() {
			t.Run("in all of "+m, func(t *testing.T) { within(t, b, want, m) })
		}
		t.Run("in mid-run", func(t *testing.T) { midRun(t, b) })
	})
}

// held observes a program from before its first instruction.
func held(t *testing.T, b *build, want outcome, links string) {
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	stderr, errs := pipe(t)
	cmd := b.command(rounds)
	c, err := process.Launch(cmd.Args, in, out, errs, cmd.Env)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Kill(); <-c.Wait() }()
	in.Close()
	out.Close()
	errs.Close()
	s := session(t, wire.Options{PID: c.PID()}, append(b.settings(), "probe_links = "+links))
	result := arm(t, s, everyCall(""))
	if result == nil {
		t.Errorf("no function's return can be observed")
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	printed, complaints := make(chan []byte, 1), make(chan []byte, 1)
	go func() { printed <- readAll(stdout, make(chan struct{})) }()
	go func() { complaints <- readAll(stderr, make(chan struct{})) }()
	stdin.Close()
	select {
	case <-c.Wait():
	case <-time.After(limit):
		t.Errorf("the program does not end: %s", stuck(c.PID()))
		c.Kill()
	}
	end := "exit 0"
	if code := c.ExitCode(); code != 0 {
		end = "exit " + itoa(code)
	}
	got := outcomeOf(<-printed, end)
	if text := <-complaints; len(text) > 0 {
		got.Transcript += string(text)
	}
	same(t, "held", want, got)
	if result != nil {
		a := read(t, result)
		for name, n := range a.rows {
			if c, ok := want.calls[name]; ok && n > c {
				t.Errorf("%s: %d rows for %d calls", name, n, c)
			}
		}
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// counted compares the calls counted by a program with the rows: entries are equal,
// and the footer accounts for missing returns.
func counted(t *testing.T, b *build, want outcome) {
	names := slices.Sorted(maps.Keys(want.calls))
	where := "WHERE function_name IN (" + quoted(names) + ")"
	stripped := slices.Contains(strings.Fields(b.flags), "-s")
	s := session(t, wire.Options{Exe: b.path}, b.settings())
	all := arm(t, s, everyCall(""))
	var entries, returns wire.Result
	if !stripped {
		entries = arm(t, s, "SELECT function_name, COUNT(*) FROM function_start "+where+" GROUP BY function_name")
		returns = arm(t, s, everyCall(where))
	}
	got := b.untouched(t, rounds)
	same(t, "by executable", want, got)
	if diff := cmp.Diff(want.calls, got.calls); diff != "" {
		t.Errorf("calls, untouched and observed: %s", diff)
	}
	finish := func(r wire.Result) *answer {
		if r == nil {
			return nil
		}
		r.Stop()
		return read(t, r)
	}
	if a := finish(all); a != nil {
		t.Logf("all functions: %d named; %s; %s", len(a.rows), a.footer(), strings.Join(a.notices, "; "))
	}
	a := finish(entries)
	if a != nil {
		for _, name := range names {
			if a.rows[name] != want.calls[name] && !isSkipped(a, name) {
				t.Errorf("function_start: %d rows of %s, which was called %d times; %v", a.rows[name], name, want.calls[name], a.notices)
			}
		}
	}
	if a := finish(returns); a != nil {
		var missing int64
		for _, name := range names {
			if a.rows[name] > 0 || !isSkipped(a, name) {
				missing += want.calls[name] - a.rows[name]
			}
			if a.rows[name] > want.calls[name] {
				t.Errorf("function_duration: %d rows of %s, which was called %d times", a.rows[name], name, want.calls[name])
			}
		}
		if missing != a.notRows() {
			t.Errorf("function_duration: %d calls gave no row, and the footer says: %s\nrows %v\ncalls %v\n%v", missing, a.footer(), a.rows, want.calls, a.notices)
		}
	}
}

// within observes all functions of a library while the program runs.
func within(t *testing.T, b *build, want outcome, module string) {
	s := session(t, wire.Options{Exe: b.path}, b.settings())
	r := arm(t, s, everyCall("WHERE module = '"+module+"'"))
	same(t, "in all of "+module, want, b.untouched(t, rounds))
	r.Stop()
	// A module that the program loads at run time may be unloaded before it is
	// probed: the footer then reports a gap.
	if a := read(t, r); len(a.rows) == 0 && !strings.Contains(a.footer(), "calls in "+module) {
		t.Errorf("no calls; %v", a.notices)
	}
}

// isSkipped reports whether a notice says that the function is not monitored.
func isSkipped(a *answer, name string) bool {
	named := regexp.MustCompile(`[:,;] ` + regexp.QuoteMeta(name) + `( \(|, | and [0-9]+ more \()`)
	return slices.ContainsFunc(a.notices, func(n string) bool { return strings.Contains(n, "not monitored") && named.MatchString(n) })
}

// midRun attaches to a running program and detaches from it several times: in all
// ways, and to all modules.
func midRun(t *testing.T, b *build) {
	want := b.untouched(t, 0)
	r := b.start(t, 0)
	<-r.began
	ended := false
	defer func() {
		if !ended { // a test has failed; the log may show the reason
			t.Logf("the program ends with %s", r.end().End)
		}
	}()
	s := session(t, wire.Options{PID: r.cmd.Process.Pid}, nil)
	type visit struct{ kernel, returns, where string }
	visits := []visit{{"on", "auto", ""}, {"off", "exits", ""}, {"on", "trap", ""}, {"off", "auto", ""}, {"on", "exits", ""}}
	for _, m := range b.observed() {
		visits = append(visits, visit{"on", "auto", "WHERE module = '" + m + "'"})
	}
	if b.libs != "" && soak() {
		visits = append(visits, visit{"on", "auto", "WHERE module LIKE '%'"}, visit{"off", "exits", "WHERE module LIKE '%'"}, visit{"on", "trap", "WHERE module LIKE '%'"})
	}
	rows := 0
	// On a busy machine the target may not run meanwhile.
	for pause := 5 * time.Millisecond; rows == 0 && pause < 10*time.Second; pause *= 10 {
		for _, v := range visits {
			if b.returns != "" {
				v.returns = b.returns
			}
			set(t, s, "kernel = "+v.kernel)
			set(t, s, "return_probes = "+v.returns)
			result := arm(t, s, everyCall(v.where))
			if result == nil && v.returns == "trap" {
				result = arm(t, s, "SELECT function_name, COUNT(*) FROM function_start "+v.where+" GROUP BY function_name")
			}
			if result == nil && strings.Contains(v.where, "plugin") {
				continue // not loaded at the moment
			}
			if result == nil {
				t.Errorf("%v: no function can be observed", v)
				continue
			}
			time.Sleep(pause) // let the target run with probes
			result.Stop()
			rows += len(read(t, result).rows)
		}
	}
	if rows == 0 {
		t.Error("no rows in mid-run")
	}
	ended = true
	same(t, "in mid-run", want, r.end())
}
