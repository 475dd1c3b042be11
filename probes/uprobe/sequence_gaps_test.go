package uprobe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// aligned checks that got is want with marked gaps: the events between two marks are one
// piece of want, the pieces are in order, and the first begins at the start of want.
func aligned(want, got []string) error {
	isGap := func(line string) bool { return strings.HasPrefix(line, decode.EventGap) }
	at := 0 // want[:at] has been matched
	for i := 0; i < len(got); {
		if end := slices.IndexFunc(got[i:], isGap); end != 0 {
			if end < 0 {
				end = len(got) - i
			}
			piece := got[i : i+end]
			skip := 0
			for skip <= len(want)-at-len(piece) && !slices.Equal(want[at+skip:at+skip+len(piece)], piece) {
				if skip++; i == 0 {
					return fmt.Errorf("the first %d events are not those of the truth, and no gap is marked", len(piece))
				}
			}
			if skip > len(want)-at-len(piece) {
				return fmt.Errorf("events %d to %d are no piece of the truth after its event %d: %q", i, i+end, at, piece[:min(8, end)])
			}
			at += skip + len(piece)
			i += end
			continue
		}
		if i+1 < len(got) && !isGap(got[i+1]) {
			mark, next := got[i], got[i+1]
			if mark[strings.LastIndexByte(mark, ' '):] != next[strings.LastIndexByte(next, ' '):] {
				return fmt.Errorf("%q is followed by %q", mark, next)
			}
		}
		i++
	}
	return nil
}

// With a ring that is too small, or above the permitted rate, events are lost, and each
// thread's sequence marks where: comparison with the complete sequence finds no other
// gap.
func TestGapsAreMarked(t *testing.T) {
	testenv.NeedUprobes(t)
	// Sixteen functions at each of three depths, each of which calls all functions of
	// the next depth in order: a piece matches at few positions.
	const base = 16
	var text strings.Builder
	var list []string
	define := func(level int, body string) {
		for i := range base {
			name := fmt.Sprintf("d%d_%x", level, i)
			list = append(list, name)
			fmt.Fprintf(&text, "NOINLINE void %s(void) { sink += %d; %s sink++; }\n", name, i, body)
		}
		fmt.Fprintf(&text, "static void (*const d%d[])(void) = {", level)
		for i := range base {
			fmt.Fprintf(&text, "d%d_%x,", level, i)
		}
		text.WriteString("};\n")
	}
	loop := fmt.Sprintf("for (int i = 0; i < %d; i++) ", base)
	define(2, "")
	define(1, loop+"d2[i]();")
	define(0, loop+"d1[i]();")
	target := testenv.CompileCText(t, prelude+text.String()+`
static void *work(void *name) { pthread_setname_np(pthread_self(), name); `+loop+`{ d0[i](); usleep(1000); } return 0; }
int main(void) {
	ready();
	pthread_t t[3]; const char *names[] = { "w0", "w1", "w2" };
	for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, (void *)names[i]);
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
}
`, "-O1", "-pthread")
	var truth []string
	var walk func(level int)
	walk = func(level int) {
		for i := range base {
			name := fmt.Sprintf("d%d_%x", level, i)
			truth = append(truth, fmt.Sprintf("ENTER %s %d", name, level))
			if level < 2 {
				walk(level + 1)
			}
			truth = append(truth, fmt.Sprintf("LEAVE %s %d", name, level))
		}
	}
	walk(0)
	// lose runs the program and returns the number of events received, and of marks for
	// a cause.
	lose := func(t *testing.T, o Options, cause string, rate int64) (rows, gaps int) {
		p := provider(t, o)
		r := run(t, target)
		spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(list...), sequenceColumns...)
		spec.Settings.MaxEventRate = rate
		_, got := start(t, p, spec)
		r.finish(success)
		got.wait(t)
		all := got.sequences(t)
		for _, thread := range []string{"w0", "w1", "w2"} {
			lines := all[thread]
			if err := aligned(truth, lines); err != nil {
				t.Errorf("%s, thread %s: %v", cause, thread, err)
			}
			for _, l := range lines {
				if strings.HasPrefix(l, decode.EventGap) {
					gaps++
				} else {
					rows++
				}
			}
		}
		lost := got.lost[cause]
		if want := 3 * len(truth); rows+int(lost) != want || lost > 0 && len(got.lost) != 1 {
			t.Errorf("%s: %d events and %v lost, want %d together", cause, rows, got.lost, want)
		}
		return rows, gaps
	}
	multiModes(t, func(t *testing.T, o Options) {
		for _, c := range []struct {
			cause string
			ring  int
			rate  int64
		}{{"ring buffer full", 4096, 0}, {"rate limit", 0, 4000}} {
			o.RingBytes = c.ring
			// The number of lost events depends on the speed of the program and of the
			// reader: the rate is adapted until there are enough of both.
			rate := c.rate
			testenv.Once(t, func() error {
				rows, gaps := lose(t, o, c.cause, rate)
				if rows >= 100 && gaps >= 10 {
					return nil
				}
				err := fmt.Errorf("%s of %d: %d events and %d gaps: too few to show anything", c.cause, rate, rows, gaps)
				if gaps < 10 {
					rate /= 2
				} else {
					rate *= 2
				}
				return err
			})
		}
	})
}

// A call whose return cannot be awaited is replaced by a mark, and the calls it encloses
// are reported as if it did not exist.
func TestGapsForCallsLeftOut(t *testing.T) {
	testenv.NeedUprobes(t)
	depths := func(event, name string, from, to int) (lines []string) {
		step := 1
		if to < from {
			step = -1
		}
		for d := from; d != to+step; d += step {
			lines = append(lines, fmt.Sprintf("%s %s %d", event, name, d))
		}
		return lines
	}
	for _, c := range []struct {
		name, text string
		want       []string
		counts     map[string]uint64
		exits      bool // also where returns are observed at exits
		perilous   bool // traps without sessions would crash it
	}{
		{"deeper than the kernel traps", `
NOINLINE long up(long n) { sink++; return n == 0 ? 0 : 1 + up(n-1); }
NOINLINE long home(long n) { sink += n; return n; }
int main(void) { ready(); up(66); home(1); }`,
			slices.Concat(depths("ENTER", "up", 0, 63), []string{"GAP  63"}, depths("LEAVE", "up", 63, 0), []string{"ENTER home 0", "LEAVE home 0"}),
			map[string]uint64{"nesting": 3}, false, false},
		{"on a signal's stack", `
#include <signal.h>
NOINLINE long hop(long n) { sink += n; return n; }
static void handler(int n) { hop(n); sink++; }
NOINLINE long home(long n) { sink += n; raise(SIGUSR1); return n; }
int main(void) {
	static char stack[65536];
	stack_t own = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	sigaltstack(&own, 0);
	sigaction(SIGUSR1, &act, 0);
	ready();
	home(1); home(2);
	raise(SIGUSR1);
}`,
			// The last gap has no event after it.
			[]string{"ENTER home 0", "GAP  0", "LEAVE home 0", "ENTER home 0", "GAP  0", "LEAVE home 0"},
			map[string]uint64{"foreign stack": 3}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := testenv.CompileCText(t, prelude+c.text, "-O1", "-fno-optimize-sibling-calls")
			returnModes(t, func(t *testing.T, o Options) {
				if exits := o.Returns == plan.ExitReturns; exits && !c.exits || !exits && c.perilous && o.Links != "session" {
					return
				}
				o.Match = matchEngine
				p := provider(t, o)
				r := run(t, target)
				sel := testplan.Named("up", "home", "hop")
				_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), sel, sequenceColumns...))
				_, gaps := start(t, p, filtered(catalog.FunctionCall, r.target(), sel, testplan.Call("=", col("event"), testplan.Constant(decode.EventGap)), sequenceColumns...))
				// A gap has no function: the condition is true for events of home only.
				named := or(testplan.Call("=", col("function_name"), testplan.Constant("home")), testplan.Call("<", col("depth"), num(0)))
				_, homes := start(t, p, filtered(catalog.FunctionCall, r.target(), sel, named, sequenceColumns...))
				none := or(testplan.Call("is null", col("function_name")), testplan.Call("<", col("depth"), num(0)))
				spec := filtered(catalog.FunctionCall, r.target(), sel, none, sequenceColumns...)
				src, nobody := start(t, p, spec)
				r.finish(success)
				if diff := cmp.Diff(c.want, got.wait(t).sequences(t)["target"]); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.counts, got.counts); diff != "" {
					t.Error(diff)
				}
				having := func(part string) (lines []string) {
					for _, l := range c.want {
						if strings.Contains(l, part) {
							lines = append(lines, l)
						}
					}
					return lines
				}
				if diff := cmp.Diff(having("GAP"), gaps.wait(t).sequences(t)["target"]); diff != "" {
					t.Error("gaps:", diff)
				}
				nobody.wait(t).rows = kept(t, src.Info().Residual, spec.Out, nobody.rows)
				if diff := cmp.Diff(having("GAP"), nobody.sequences(t)["target"]); diff != "" {
					t.Error("no function:", diff)
				}
				if diff := cmp.Diff(having("home"), homes.wait(t).sequences(t)["target"]); diff != "" {
					t.Error("home:", diff)
				}
			})
		})
	}
}

// Where exits are probed, the depth of calls is limited by the total room only.
func TestGapsForWhatFindsNoRoom(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long up(long n) { sink++; return n == 0 ? 0 : 1 + up(n-1); }
NOINLINE long home(long n) { sink += n; return n; }
int main(void) { ready(); up(299); home(1); }
`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{MaxCalls: 100})
	r := run(t, target)
	_, got := start(t, p, byExits(catalog.FunctionCall, r.target(), testplan.Named("up", "home"), sequenceColumns...))
	r.finish(success)
	lines := got.wait(t).sequences(t)["target"]
	room := 300 - int(got.lost["no room for calls in progress"])
	if room < 90 || room > 110 {
		t.Fatalf("lost %v of 300 calls", got.lost)
	}
	var want []string
	for d := range room {
		want = append(want, fmt.Sprintf("ENTER up %d", d))
	}
	want = append(want, fmt.Sprintf("GAP  %d", room-1))
	for d := range room {
		want = append(want, fmt.Sprintf("LEAVE up %d", room-1-d))
	}
	want = append(want, "ENTER home 0", "LEAVE home 0")
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
