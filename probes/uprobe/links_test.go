package uprobe

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// The session's setting overrides the provider's choice.
func TestSettingDecidesLinks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, worker, "-O1")
	p := provider(t, Options{Links: "multi"})
	for setting, want := range map[string]string{
		"": "entry+return (multi)", "auto": "entry+return (multi)", "perf": "entry+return (perf)", "session": "entry+return (session)",
	} {
		if setting == "session" && !attach.FeatureSession.Has() {
			continue
		}
		spec := testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("work"), "timestamp")
		spec.Settings.ProbeLinks = setting
		src, got := start(t, p, spec)
		if s := src.Info().Sites; len(s) != 1 || s[0].Kind != want {
			t.Errorf("probe_links %q: prepared %+v, want %s", setting, s, want)
		}
		if s := p.Probes(); len(s) != 1 || s[0].Kind != want {
			t.Errorf("probe_links %q: attached %+v, want %s", setting, s, want)
		}
		run(t, target, "3").finish(success)
		src.Stop()
		if n := len(got.wait(t).rows); n != 3 {
			t.Errorf("probe_links %q: %d rows, want 3", setting, n)
		}
	}
}

// Two queries of one process see its calls by different kinds of link.
func TestKindsOfLinkAtOneSite(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, worker, "-O1")
	r := run(t, target, "50")
	p := provider(t, Options{})
	var all []*record
	for k := attach.Session; k <= attach.Perf; k++ {
		if !k.Needs().Has() {
			continue
		}
		spec := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("work"), "arg0", "retval")
		spec.Settings.ProbeLinks = k.String()
		_, got := start(t, p, spec)
		all = append(all, got)
	}
	r.finish(success)
	for i, got := range all {
		if n := len(got.wait(t).rows); n != 50 || len(got.counts)+len(got.lost) > 0 {
			t.Errorf("query %d: %d rows, counts %v, lost %v; want 50 rows", i, n, got.counts, got.lost)
		}
	}
}

// When the main thread exits, the probes of the other threads remain.
func TestMainThreadLeaves(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
static pthread_t first;
static void *rest(void *p) { pthread_join(first, 0); for (long i = 0; i < 20; i++) work(i); exit(0); }
int main(void) { ready(); pthread_t t; first = pthread_self(); work(1); pthread_create(&t, 0, rest, 0); pthread_exit(0); }
`, "-O1", "-pthread")
	returnModes(t, func(t *testing.T, o Options) {
		for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
			t.Run(stream, func(t *testing.T) {
				p := provider(t, o)
				r := run(t, target)
				_, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.Named("work"), "arg0"))
				r.finish(success)
				if n := len(got.wait(t).rows); n != 21 {
					t.Errorf("%d rows, want 21", n)
				}
			})
		}
	})
}

// What perf events cannot do in reasonable time, or for lack of descriptors, is refused
// before anything is attached.
func TestLimitsOfPerfEvents(t *testing.T) {
	testenv.NeedUprobes(t)
	needFeature(t, attach.FeaturePerf)
	var text strings.Builder
	text.WriteString(prelude)
	for i := range 600 {
		fmt.Fprintf(&text, "NOINLINE void fn%d(void) { sink += %d; }\n", i, i)
	}
	target := testenv.CompileCText(t, text.String()+"int main(void) { ready(); }", "-O1")
	p := provider(t, Options{Links: "perf"})
	like := func(pattern string) *plan.Acquire {
		return testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant(pattern)), "timestamp")
	}
	_, err := p.Prepare(t.Context(), like("fn%"))
	refused(t, err, "600 functions would take 1200 probes by perf events", "choose functions by name; SET probe_links = multi")
	src, err := p.Prepare(t.Context(), like("fn1%")) // fn1, fn10 to fn19, fn100 to fn199
	if err != nil {
		t.Fatal(err)
	}
	src.Stop()
	if ns := src.Info().Notices; len(ns) == 0 || !strings.HasPrefix(ns[len(ns)-1], "ending the query takes about 22s: its 222 probes") {
		t.Errorf("notices %q", ns)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 200
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	_, err = p.Prepare(t.Context(), like("fn1%"))
	refused(t, err, "111 functions would take 222 probes by perf events, and this process may open ", "choose functions by name, or raise the limit (ulimit -n)")
}

// A refused site is reported by its index, and nothing stays attached.
func TestRefusedPerfEvent(t *testing.T) {
	testenv.NeedUprobes(t)
	needFeature(t, attach.FeaturePerf)
	target := testenv.CompileCText(t, worker, "-O1")
	r := run(t, target, "1")
	p := provider(t, Options{Links: "perf"})
	src, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
	if err != nil {
		t.Fatal(err)
	}
	s := src.(*source)
	// An offset beyond the end of the file, as after a change.
	bad := s.resolution.Functions[0]
	bad.Site.Offset, bad.Label.Function = 1<<40, "gone"
	s.resolution.Functions = append(s.resolution.Functions, bad)
	s.filter.Facts = append(s.filter.Facts, 0)
	err = src.Start(t.Context(), newRecord(s.spec), probes.Options{})
	refused(t, err, "the kernel refuses to probe gone in target", "leave it out")
	if isPatched(t, r) {
		t.Error("probes remain")
	}
	r.finish(success)
}
