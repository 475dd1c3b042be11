package uprobe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/rates"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// manyFunctions returns a program with 120 functions. With an argument it calls them in
// turn without end; with "later" it does so after a line of input.
func manyFunctions() string {
	var b strings.Builder
	b.WriteString(prelude)
	for i := range 120 {
		fmt.Fprintf(&b, `__asm__(".text\n.globl many%[1]d\n.type many%[1]d,@function\nmany%[1]d: .cfi_startproc\npush %%rbx\n.cfi_adjust_cfa_offset 8\npop %%rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size many%[1]d,.-many%[1]d\n"); void many%[1]d(void);`+"\n", i)
	}
	b.WriteString("int main(int argc, char **argv) { puts(\"ready\"); fflush(stdout); char b[9]; if (argc < 2) return !fgets(b, 9, stdin);\nif (argv[1][0] == 'l' && !fgets(b, 9, stdin)) return 1;\nfor (;;) {\n")
	for i := range 120 {
		fmt.Fprintf(&b, "many%d(); for (int i = 0; i < 2000; i++) sink++;\n", i)
	}
	b.WriteString("} }\n")
	return b.String()
}

func many(limit float64, t plan.Target) *plan.Acquire { return named("many%", limit, t) }

func named(like string, limit float64, t plan.Target) *plan.Acquire {
	a := testplan.Acquire(catalog.FunctionStart, t, testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant(like)), "timestamp", "function_name")
	a.Settings.MaxOverhead = limit
	return a
}

// The estimate for a program that calls many functions is a notice. Its refusal comes
// before anything is attached, and leaves nothing attached.
func TestEstimateOfManyFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, manyFunctions(), "-O1")
	p := provider(t, Options{})
	r := run(t, target, "work")
	defer r.cmd.Process.Kill()
	var src probes.Source
	for deadline := time.Now().Add(2 * time.Minute); ; src.Stop() {
		var err error
		if src, err = p.Prepare(t.Context(), many(1e-6, r.target())); err != nil {
			t.Fatal(err)
		}
		if src.Info().Refusal != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not refused: %q", src.Info().Notices)
		}
	}
	if n := linkCount(t, target); n != 0 {
		t.Errorf("%d links when it was refused", n)
	}
	err := src.Start(t.Context(), newRecord(many(0, r.target())), probes.Options{})
	if err == nil || !strings.Contains(err.Error(), "probing 120 functions costs too much: at the current call rates it would cost ") ||
		!strings.Contains(err.Error(), "mostly many") || !strings.Contains(err.Error(), "SET max_overhead = ") {
		t.Errorf("refused with %v", err)
	}
	if err := src.Stop(); err != nil {
		t.Error(err)
	}

	src, rec := start(t, p, many(1e6, r.target()))
	if ns := src.Info().Notices; len(ns) != 1 || !strings.HasPrefix(ns[0], "120 functions will be probed; at the current call rates that costs ") {
		t.Errorf("notices %q", ns)
	}
	more(t, rec) // with a limit that allows them
	src.Stop()
	rec.wait(t)
	if src, err = p.Prepare(t.Context(), many(0, r.target())); err != nil {
		t.Fatal(err)
	}
	if ns := src.Info().Notices; len(ns) != 0 || src.Info().Refusal != nil {
		t.Errorf("without a limit: %q", ns)
	}
	src.Stop()
}

// An unknown or zero cost is reported as such.
func TestEstimateOfWhatDoesNotRun(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, manyFunctions(), "-O1")
	p := provider(t, Options{})
	notice := func(target plan.Target) string {
		t.Helper()
		src, err := p.Prepare(t.Context(), many(1e-6, target))
		if err != nil {
			t.Fatal(err)
		}
		defer src.Stop()
		if err := src.Info().Refusal; err != nil {
			t.Error(err)
		}
		return strings.Join(src.Info().Notices, "\n")
	}
	const unknown = "120 functions will be probed; what that costs is not known before the program runs"
	held, err := process.Launch([]string{target, "work"}, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := notice(plan.Target{PIDs: []int{held.PID()}, Command: true}); n != unknown {
		t.Errorf("held: %q", n)
	}
	held.Kill()
	<-held.Wait()
	if n := notice(plan.Target{Exes: []string{target}}); n != unknown {
		t.Errorf("not started: %q", n)
	}
	r := run(t, target)
	const idle = "120 functions will be probed; the program is idle, so that this costs nothing now"
	testenv.UntilNil(t, "it waits", func() error { // it prints that it is ready, and then waits
		if n := notice(r.target()); n != idle {
			return fmt.Errorf("idle: %q", n)
		}
		return nil
	})
	r.finish(success)
}

// A query for many functions of several processes counts each function once, and assigns
// samples to the process they were taken in.
func TestCandidates(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, manyFunctions(), "-O1", "-no-pie")
	p := provider(t, Options{})
	a, b := run(t, target), run(t, target)
	both := plan.Target{PIDs: []int{a.cmd.Process.Pid, b.cmd.Process.Pid}}
	src, err := p.Prepare(t.Context(), many(0, both))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Stop()
	r := src.(*source).resolution
	if n := r.CountFunctions(); n != 120 || len(r.Functions) != 240 {
		t.Errorf("%d functions, %d wants", n, len(r.Functions))
	}
	// The address of many7 in memory: the file's text is mapped in one piece.
	var at uint64
	for _, w := range r.Functions {
		if m := w.Module.Mapped[0].Mapping; w.Label.Function == "many7" {
			at = w.Site.Offset - w.Behind - m.Offset + m.Start
		}
	}
	pid := b.cmd.Process.Pid
	got := candidates(src.(*source), rates.Activity{Samples: map[rates.Spot]int{
		{PID: pid, Addr: at}: 3, {PID: pid, Addr: at + 1}: 4,
		{PID: pid, Addr: at + 3}: 100, // many8 begins here
		{PID: pid, Addr: 16}:     100, // nothing is here
	}})
	for i, c := range got {
		want := 0
		if c.PID == pid {
			switch r.Functions[i].Label.Function {
			case "many7":
				want = 7
			case "many8":
				want = 100
			}
		}
		if c.Samples != want {
			t.Errorf("%s in process %d: %d samples, want %d", r.Functions[i].Label.Function, c.PID, c.Samples, want)
		}
		if c.CostNs != src.Info().Sites[i].CostNs || c.CostNs == 0 {
			t.Errorf("a call costs %f ns", c.CostNs)
		}
	}
	a.finish(success)
	b.finish(success)
}

func TestNumbersAsOneSaysThem(t *testing.T) {
	for n, want := range map[float64]string{
		0.04: "0", 3.14: "3.1", 9.94: "9.9", 9.96: "10", 38.4: "38", 412: "410", 1249: "1200",
	} {
		if got := twoDigits(n); got != want {
			t.Errorf("twoDigits(%g) is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{
		7: "7", 1234: "1200", 73_600: "74,000", 999_499: "999,000", 999_501: "1 M", 1_234_567: "1.2 M", 41_700_000: "42 M",
	} {
		if got := callsIn(n); got != want {
			t.Errorf("calls(%g) is %s, want %s", n, got, want)
		}
	}
}

// Load that comes when the query runs already is compared with the limit each second. The
// query ends with what it has, and the program goes on at its own speed.
func TestLoadThatComesLater(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		functions string
		percent   float64
	}{{"many%", 1}, {"many7", 0.01}} {
		t.Run(c.functions, func(t *testing.T) { loadComesLater(t, c.functions, c.percent) })
	}
}

func loadComesLater(t *testing.T, functions string, percent float64) {
	target := testenv.CompileCText(t, manyFunctions(), "-O1")
	p := provider(t, Options{})
	r := run(t, target, "later")
	defer r.cmd.Process.Kill()
	_, limited := start(t, p, named(functions, percent/100, r.target()))
	free, unlimited := start(t, p, named(functions, 0, r.target()))
	r.step()
	limited.wait(t)
	var ended []string
	for cause := range limited.counts {
		if strings.HasPrefix(cause, "query ended early: its probes take ") && strings.HasSuffix(cause, fmt.Sprintf("; SET max_overhead is %g %%", percent)) {
			ended = append(ended, cause)
		}
	}
	if len(ended) != 1 || limited.counts[ended[0]] != 1 {
		t.Errorf("counts %v", limited.counts)
	}
	if len(limited.rows) == 0 || len(limited.lost) > 0 {
		t.Errorf("%d rows, lost %v", len(limited.rows), limited.lost)
	}
	more(t, unlimited)
	if err := free.Stop(); err != nil {
		t.Error(err)
	}
	unlimited.wait(t)
}
