package uprobe

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

// What a kernel cannot follow is refused before anything is loaded, for every way of
// observing returns.
func TestNestingNeedsLoops(t *testing.T) {
	has := attach.FeatureLoop.Has
	t.Cleanup(func() { attach.FeatureLoop.Has = has })
	attach.FeatureLoop.Has = func() bool { return false }
	for _, c := range []struct {
		stream, column string
		returns        calls.Returns
		msg, hint      string // "": it is not refused
	}{
		{catalog.FunctionCall, "event", calls.Trapped, "function_call needs Linux 5.17 or newer: this kernel has no bpf_loop", ""},
		{catalog.FunctionCall, "event", calls.AtExits, "function_call needs Linux 5.17 or newer: this kernel has no bpf_loop", ""},
		{catalog.FunctionDuration, "depth", calls.AtExits, "the depth of calls whose exits are probed needs Linux 5.17 or newer", "leave out"},
		{catalog.FunctionDuration, "depth", calls.Trapped, "", ""},
		{catalog.FunctionDuration, "duration", calls.AtExits, "", ""},
	} {
		err := calls.CheckNesting(testplan.Acquire(c.stream, plan.Target{}, nil, c.column), []calls.Function{{Returns: c.returns}})
		if c.msg != "" {
			refused(t, err, c.msg, c.hint)
		} else if err != nil {
			t.Errorf("%s of %s: %v", c.column, c.stream, err)
		}
	}
}

// A thread that continues on the stack of another, and returns from a call on it, has
// not abandoned its own calls. The end of that call is reported for the other; for neither
// if it is not seen that stacks are switched.
func TestSequencesOverAnotherThreadsStack(t *testing.T) {
	testenv.NeedUprobes(t)
	const text = `
static void *host, *guest, *other;
static char stack[65536];
static volatile int parked, done;
/* Where the first thread is while the other has its stack. */
static void body(void) { parked = 1; while (!done) usleep(1000); jump(&guest, host); }
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long home(long n) { sink += n; jump(&host, guest); sink++; return n; }
NOINLINE long borrow(long n) { leaf(n); jump(&other, host); sink++; leaf(n); return n + 1; }
static void *work(void *p) {
	pthread_setname_np(pthread_self(), "other");
	while (!parked) usleep(1000);
	borrow(1);
	leaf(1);
	done = 1;
	return 0;
}
int main(void) {
	pthread_t t;
	ready();
	guest = begin(stack, sizeof stack, body);
	pthread_create(&t, 0, work, 0);
	home(1);
	jump(&host, other); /* the other thread; the first comes back */
	pthread_join(t, 0);
	leaf(2);
	return 0;
}
`
	alone := []string{
		"ENTER borrow 0", "ENTER leaf 1", "LEAVE leaf 1", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE borrow 0",
		"ENTER leaf 0", "LEAVE leaf 0",
	}
	for name, c := range map[string]struct {
		jump string
		want map[string][]string
	}{
		"seen":     {contextSwitch, map[string][]string{"other": alone, "target": {"ENTER home 0", "LEAVE home 0", "ENTER leaf 0", "LEAVE leaf 0"}}},
		"not seen": {strings.Replace(contextSwitch, "mov %rsi, %rsp", "sub %rsp, %rsi; add %rsi, %rsp", 1), map[string][]string{"other": slices.Insert(slices.Clone(alone), 3, "GAP  1")}},
	} {
		t.Run(name, func(t *testing.T) {
			target := testenv.CompileCText(t, prelude+c.jump+text, "-O1", "-pthread")
			p := provider(t, Options{})
			r := run(t, target)
			_, got := start(t, p, byExits(catalog.FunctionCall, r.target(), testplan.Named("leaf", "home", "borrow"), sequenceColumns...))
			r.finish(success)
			all := got.wait(t).sequences(t)
			for thread, want := range c.want {
				if diff := cmp.Diff(want, all[thread]); diff != "" {
					t.Errorf("%s: %s", thread, diff)
				}
			}
		})
	}
}

// Some of the calls under way cannot be found any more: those around them end in gaps.
func TestGapsForCallsNotFound(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long inner(long n) { ready(); leaf(n); sink++; return n; }
NOINLINE long next(long n) { sink += n; return n; }
NOINLINE long outer(long n) { inner(n); next(n); sink++; return n; }
NOINLINE long last(long n) { sink += n; return n; }
int main(void) { ready(); outer(1); last(1); return 0; }
`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	src, got := start(t, p, byExits(catalog.FunctionCall, r.target(), testplan.Named("leaf", "inner", "next", "outer", "last"), sequenceColumns...))
	r.step()
	r.awaitReady()
	s := src.(*source)
	lost := 0
	p.mu.Lock() // the maps are closed while it is held
	program.Prune(s.sub.Installation.Objects.Maps[bpf.FunctionMapOpenCalls], func(f bpf.FunctionFrame, c bpf.FunctionPending) bool {
		if s.resolution.Functions[f.Function].Label.Function != "inner" {
			return false
		}
		lost++
		return true
	})
	p.mu.Unlock()
	if lost != 1 {
		t.Fatalf("%d calls of inner were under way", lost)
	}
	r.finish(success)
	want := []string{
		"ENTER outer 0", "ENTER inner 1", "ENTER leaf 2", "LEAVE leaf 2", // inner's return is missed
		"GAP  0", "ENTER next 0", "LEAVE next 0", // and so is outer's
		"GAP  0", "ENTER last 0", "LEAVE last 0",
	}
	if diff := cmp.Diff(want, got.wait(t).sequences(t)["target"]); diff != "" {
		t.Error(diff)
	}
}

// Where there is no memory for the state of a goroutine, each of its calls is a gap,
// which is sent or counted.
func TestGapsThatCannotBeNotedAreCounted(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/goholds")
	p := provider(t, Options{MaxCalls: 1})
	r := run(t, target)
	spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("main.hold", "main.step"), append(sequenceColumns, "goroutine")...)
	spec.Settings.MaxEventRate = 100
	_, got := start(t, p, spec)
	r.finish(success)
	got.wait(t)
	const steps = 4 * 500
	events := tally(got.strings("event"))
	unsent, room := int(got.lost["rate limit"]), int(got.lost["no room for calls in progress"])
	if room != steps || events[decode.EventGap] == 0 || unsent == 0 {
		t.Errorf("%d calls without room, want %d; events %v, %d not sent", room, steps, events, unsent)
	}
	if told := len(got.rows) + unsent; told != steps+2 {
		t.Errorf("%d events and %d not sent, want %d together", len(got.rows), unsent, steps+2)
	}
}
