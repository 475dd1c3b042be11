package uprobe

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// One thread calls opener occasionally, the other calls gated all the time, with numbers
// that identify the calls.
const gateProgram = `
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
volatile int stop;
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void spin(long ns) { for (long until = now() + ns; now() < until;); }
NOINLINE long opener(long i)
{
	sink += i;
	if (i % 2)
		spin(300000);
	return i;
}
NOINLINE long gated(long i) { sink += i; return i; }
/* On a busy machine two threads may share a processor, and then one never runs
 * soon after the other. */
static void pin(int cpu)
{
	cpu_set_t s;
	CPU_ZERO(&s);
	CPU_SET(cpu, &s);
	sched_setaffinity(0, sizeof s, &s);
}
static void *call_gated(void *p)
{
	long n = 0;
	pin(1);
	while (!stop)
		gated(n++);
	printf("%ld\n", n);
	return 0;
}
int main(int argc, char **argv)
{
	char b[8];
	pthread_t t;
	puts("ready");
	fflush(stdout);
	if (!fgets(b, sizeof b, stdin))
		return 9;
	pthread_create(&t, 0, call_gated, 0);
	pin(0);
	if (argc > 1) /* until it is told */
		fgets(b, sizeof b, stdin);
	else for (long i = 0; i < 80; i++) {
		spin(4000000);
		opener(i);
	}
	stop = 1;
	pthread_join(t, 0);
	return 0;
}`

// gateRun is a run in which rows of opener open the gate of gated. all has every call of
// gated.
type gateRun struct {
	opener, gated, all *record
	activity           probes.Activity
	open               time.Duration
}

const gateWithin = time.Millisecond

// gatedRuns repeats the program until a run covers the tested case, and checks each run.
func gatedRuns(t *testing.T, o Options, opener, gated *plan.Acquire, during func(*gate.Gate), check func(gateRun) (shows error)) {
	t.Helper()
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, gateProgram, "-pthread")
	testenv.Once(t, func() error {
		r, lost := runGate(t, program, o, opener, gated, during)
		if lost != nil {
			return lost
		}
		return check(r)
	})
}

// runGate runs the program. The probes of all are attached last and therefore run first:
// its clock is read before the gate is checked. Runs in which a busy machine loses rows
// are not compared.
func runGate(t *testing.T, program string, o Options, opener, gated *plan.Acquire, during func(*gate.Gate)) (out gateRun, lost error) {
	t.Helper()
	target := run(t, program)
	p := provider(t, o)
	set, err := gate.NewSet(3, true)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	g := set.Gate(2) // gates 0 and 1 are not used
	opener.Target, gated.Target = target.target(), target.target()
	var sources []probes.Source
	for _, spec := range []*plan.Acquire{opener, gated} {
		src, err := p.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Stop()
		gates := probes.Gates{Set: set}
		if spec == opener {
			if a := src.Info().Ability; !a.Opens {
				t.Fatalf("it opens no gates: %s", a.Closed)
			}
			gates.Opens = []probes.Opened{{Gate: g, Within: gateWithin}}
		} else {
			gates.Own, gates.Way = g, plan.AtEntry
		}
		sink := newRecord(spec)
		if err := src.Start(t.Context(), sink, probes.Options{Gates: gates}); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, src)
		if spec == opener {
			out.opener = sink
		} else {
			out.gated = sink
		}
	}
	_, out.all = start(t, p, testplan.Acquire(catalog.FunctionStart, target.target(), testplan.Named("gated"), "timestamp", "arg0"))
	if during != nil {
		target.step()
		during(g)
	}
	target.finish(success)
	for _, r := range []*record{out.opener, out.gated, out.all} {
		r.wait(t)
		if len(r.lost) > 0 {
			lost = fmt.Errorf("lost: %v", r.lost)
		}
	}
	out.activity = sources[1].Stats().Activity
	ns, _ := g.Opened(clock.Now() + 1e9)
	out.open = time.Duration(ns)
	return out, lost
}

// check verifies that no required call is missing. A call is required if it follows a
// row of the opener, however closely, within the window. It returns why a run covers
// nothing: the calling thread must have run while the gate was open, and while it was
// shut.
func (r gateRun) check(t *testing.T, began string) (shows error) {
	t.Helper()
	opened := r.opener.ints("timestamp")
	if len(opened) == 0 {
		t.Fatal("the opener has no rows")
	}
	passed := map[int64]int64{} // when, by number
	times, ids := r.gated.ints(began), r.gated.ints("arg0")
	for i, id := range ids {
		passed[id] = times[i]
	}
	if len(passed) != len(ids) {
		t.Error("a call has two rows")
	}
	needed, missing := 0, 0
	times, looked := r.looks()
	ids = r.all.ints("arg0")
	for i, id := range ids {
		n, _ := slices.BinarySearch(opened, times[i])
		if n == 0 || looked[i] > opened[n-1]+int64(gateWithin) {
			continue
		}
		needed++
		switch at, ok := passed[id]; {
		case !ok:
			if missing++; missing < 5 {
				t.Errorf("call %d is missing, %dns behind a row", id, times[i]-opened[n-1])
			}
		case at < times[i]:
			t.Fatalf("the gate was looked at before the call of %d was seen: the test is wrong about the order", id)
		}
	}
	t.Logf("%d rows opened the gate for %v; of %d calls %d passed, %d of them needed", len(opened), r.open, len(ids), len(passed), needed)
	if needed > len(passed) && missing == 0 {
		t.Errorf("%d calls were needed, %d passed", needed, len(passed))
	}
	if a := r.activity; a.Events != uint64(len(ids)) || a.Events-a.Shut < uint64(len(passed)) {
		t.Errorf("%d of %d calls met a shut gate; there were %d, and %d passed", a.Shut, a.Events, len(ids), len(passed))
	}
	if least := time.Duration(len(opened)) * gateWithin; r.open < least || r.open > 10*least {
		t.Errorf("the gate was open for %v: at least %v expected", r.open, least)
	}
	switch {
	case needed == 0:
		return fmt.Errorf("none of %d calls was needed", len(ids))
	case len(passed)*2 > len(ids):
		return fmt.Errorf("%d of %d calls passed a gate that was shut for most of the time", len(passed), len(ids))
	}
	if r.activity.Shut == 0 {
		t.Errorf("no call met a shut gate, and %d of %d passed", len(passed), len(ids))
	}
	return nil
}

// looks returns when each call of all was seen, and the latest time at which its gate
// was checked: the time at which its only calling thread began the next call. The
// program may be preempted between its two probes for any time.
func (r gateRun) looks() (seen, looked []int64) {
	seen, ids := r.all.ints("timestamp"), r.all.ints("arg0")
	at := make(map[int64]int64, len(ids))
	for i, id := range ids {
		at[id] = seen[i]
	}
	for _, id := range ids {
		next, ok := at[id+1]
		if !ok {
			next = math.MaxInt64
		}
		looked = append(looked, next)
	}
	return seen, looked
}

// TestGateBehindStart: the opener's rows are entries.
func TestGateBehindStart(t *testing.T) {
	opener := testplan.Acquire(catalog.FunctionStart, plan.Target{}, testplan.Named("opener"), "timestamp", "arg0")
	opener.Filter = testplan.Call("<", columnOf(opener, "arg0"), &plan.Const{V: types.Int(70)})
	gated := testplan.Acquire(catalog.FunctionStart, plan.Target{}, testplan.Named("gated"), "timestamp", "arg0")
	gatedRuns(t, Options{}, opener, gated, nil, func(r gateRun) error {
		if n := len(r.opener.rows); n != 70 {
			t.Errorf("%d rows of the opener", n)
		}
		return r.check(t, "timestamp")
	})
}

// TestGateBehindDuration: the opener's rows are long calls, at their returns; calls with
// their durations pass the gate.
func TestGateBehindDuration(t *testing.T) {
	returnModes(t, func(t *testing.T, o Options) {
		opener := testplan.Acquire(catalog.FunctionDuration, plan.Target{}, testplan.Named("opener"), "timestamp", "duration", "arg0", "start_time")
		opener.Filter = testplan.Call(">", columnOf(opener, "duration"), &plan.Const{V: types.Dur(200_000)})
		gated := testplan.Acquire(catalog.FunctionDuration, plan.Target{}, testplan.Named("gated"), "timestamp", "start_time", "arg0")
		gatedRuns(t, o, opener, gated, nil, func(r gateRun) error {
			if n := len(r.opener.rows); n < 40 { // the machine may delay short ones
				t.Errorf("%d rows of the opener", n)
			}
			ends, starts := r.opener.ints("timestamp"), r.opener.ints("start_time")
			for i, d := range r.opener.ints("duration") {
				if end, start := ends[i], starts[i]; d != end-start || d <= 200_000 {
					t.Errorf("a call from %d to %d has the duration %d", start, end, d)
				}
			}
			return r.check(t, "start_time")
		})
	})
}

// TestForcedGate: a gate that is forced open lets all calls pass, and has no effect on
// later calls once it is released.
func TestForcedGate(t *testing.T) {
	opener := testplan.Acquire(catalog.FunctionStart, plan.Target{}, testplan.Named("opener"), "timestamp")
	gated := testplan.Acquire(catalog.FunctionStart, plan.Target{}, testplan.Named("gated"), "timestamp", "arg0")
	var from, to int64
	force := func(g *gate.Gate) {
		time.Sleep(100 * time.Millisecond) // the opener decides meanwhile
		g.Force(true)
		from = clock.Now()
		time.Sleep(40 * time.Millisecond) // all calls pass meanwhile
		to = clock.Now()
		g.Force(false)
	}
	gatedRuns(t, Options{}, opener, gated, force, func(r gateRun) error {
		passed := map[int64]bool{}
		for _, id := range r.gated.ints("arg0") {
			passed[id] = true
		}
		opened := r.opener.ints("timestamp")
		forced, ids := 0, r.all.ints("arg0")
		seen, looked := r.looks()
		for i, at := range seen {
			n, _ := slices.BinarySearch(opened, at)
			needed := n > 0 && looked[i] <= opened[n-1]+int64(gateWithin)
			if at > from && looked[i] < to {
				forced, needed = forced+1, true
			}
			if id := ids[i]; needed && !passed[id] {
				t.Fatalf("call %d, %v after the gate was forced, is missing", id, time.Duration(at-from))
			}
		}
		if forced == 0 || len(passed) == len(r.all.rows) {
			return fmt.Errorf("%d calls while the gate was forced; %d of %d passed", forced, len(passed), len(r.all.rows))
		}
		return nil
	})
}

// TestSequenceHasNoGate: a gate would leave holes in a sequence.
func TestSequenceHasNoGate(t *testing.T) {
	testenv.NeedUprobes(t)
	target := run(t, testenv.CompileCText(t, gateProgram, "-pthread"))
	src, err := provider(t, Options{}).Prepare(t.Context(), testplan.Acquire(catalog.FunctionCall, target.target(), testplan.Named("gated"), "timestamp", "event"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Stop()
	if a := src.Info().Ability; a.Gate != plan.NoGate || a.Opens || a.Why == "" {
		t.Errorf("a sequence can do %+v", a)
	}
}

func columnOf(a *plan.Acquire, name string) plan.Expr {
	i := a.Out.Index(name)
	return &plan.Col{Index: i, Name: name, T: a.Out.Fields[i].Type}
}

// BenchmarkGate measures the cost of a call, like BenchmarkCall, with a gate that is
// shut or forced open, and of a call that opens a gate which is already open.
func BenchmarkGate(b *testing.B) {
	testenv.NeedUprobes(b)
	target := benchTarget(b)
	for _, c := range []struct {
		name, stream string
		forced       bool
		opens        bool
	}{
		{"entry, shut", catalog.FunctionStart, false, false},
		{"entry, forced", catalog.FunctionStart, true, false},
		{"entry, opens", catalog.FunctionStart, true, true},
		{"session, shut", catalog.FunctionDuration, false, false},
		{"session, forced", catalog.FunctionDuration, true, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				set, err := gate.NewSet(2, true)
				if err != nil {
					b.Fatal(err)
				}
				set.Gate(0).Force(c.forced)
				gates := probes.Gates{Set: set, Own: set.Gate(0), Way: plan.AtEntry}
				if c.opens {
					gates.Opens = []probes.Opened{{Gate: set.Gate(1), Within: 100 * time.Millisecond}}
				}
				spec := testplan.Acquire(c.stream, r.target(), testplan.Named("pushes"), "timestamp")
				src, err := provider(b, Options{}).Prepare(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				d := &testplan.Discard{Ended: make(chan struct{})}
				if err := src.Start(b.Context(), d, probes.Options{Gates: gates}); err != nil {
					b.Fatal(err)
				}
				return func() *testplan.Discard {
					<-d.Ended
					set.Close()
					return d
				}
			})
		})
	}
}

// more waits until r has additional rows.
func more(t *testing.T, r *record) {
	t.Helper()
	before := r.len()
	testenv.Until(t, "more rows come", func() bool { return r.len() > before })
}

// TestDetachAndAttach: a source that is detached for a while sends no rows, costs
// nothing, and continues afterwards.
func TestDetachAndAttach(t *testing.T) {
	for name, o := range map[string]Options{"session": {}, "exits": {Returns: plan.ExitReturns}} {
		t.Run(name, func(t *testing.T) {
			testenv.NeedUprobes(t)
			target := run(t, testenv.CompileCText(t, gateProgram, "-pthread"), "until told")
			p := provider(t, o)
			set, err := gate.NewSet(1, true)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			set.Gate(0).Force(true)
			spec := testplan.Acquire(catalog.FunctionDuration, target.target(), testplan.Named("gated"), "timestamp", "arg0")
			src, err := p.Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Stop()
			if !src.Info().Detaches {
				t.Fatal("it cannot be detached")
			}
			sink := newRecord(spec)
			if err := src.Start(t.Context(), sink, probes.Options{Gates: probes.Gates{Set: set, Own: set.Gate(0), Way: plan.AtEntry, Detaches: true}}); err != nil {
				t.Fatal(err)
			}
			target.step()
			more(t, sink)
			for range 2 { // the second time has no effect
				if _, err := src.Control(t.Context(), probes.Detach{}); err != nil {
					t.Fatal(err)
				}
			}
			from := clock.Now()
			before := src.Stats().Activity.Events
			if n := len(p.Probes()); n != 0 {
				t.Errorf("%d probes are listed while none is attached", n)
			}
			time.Sleep(60 * time.Millisecond) // the target makes calls meanwhile
			to := clock.Now()
			if n := src.Stats().Activity.Events; n != before {
				t.Errorf("%d calls trapped while nothing was attached", n-before)
			}
			for range 2 {
				if _, err := src.Control(t.Context(), probes.Attach{}); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(p.Probes()); n != 1 {
				t.Errorf("%d probes are listed", n)
			}
			more(t, sink)
			target.finish(success)
			sink.wait(t)
			early, late := 0, 0
			for _, at := range sink.ints("timestamp") {
				switch {
				case at < from:
					early++
				case at < to:
					t.Fatalf("a row %v after the probes were detached", time.Duration(at-from))
				default:
					late++
				}
			}
			if early == 0 || late == 0 {
				t.Errorf("%d rows before and %d after", early, late)
			}
			if _, err := src.Control(t.Context(), probes.Attach{}); err != nil {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// TestCallsWhileDetached: calls that return, or begin, while nothing is attached make no
// rows, and are not paired with each other where they share a frame.
func TestCallsWhileDetached(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, prelude+`
NOINLINE void ask(long n) { char b[16]; printf("in %ld\n", n); fflush(stdout); if (!fgets(b, sizeof b, stdin)) exit(9); }
NOINLINE long f(long n) { ask(n); sink += n; return n; }
int main(void) { ready(); for (int n = 1; n <= 3; n++) f(n); }
`, "-O1")
	for name, o := range map[string]Options{"session": {}, "pair": {Links: "multi"}, "exits": {Returns: plan.ExitReturns}} {
		t.Run(name, func(t *testing.T) {
			target := run(t, program)
			spec := testplan.Acquire(catalog.FunctionDuration, target.target(), testplan.Named("f"), "timestamp", "arg0")
			src, err := provider(t, o).Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Stop()
			set, err := gate.NewSet(1, true)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			set.Gate(0).Force(true)
			sink := newRecord(spec)
			if err := src.Start(t.Context(), sink, probes.Options{Gates: probes.Gates{Set: set, Own: set.Gate(0), Way: plan.AtEntry, Detaches: true}}); err != nil {
				t.Fatal(err)
			}
			target.step()
			for n, flip := range []probes.Command{probes.Detach{}, probes.Attach{}, nil} {
				if got, want := target.line(), fmt.Sprintf("in %d", n+1); got != want {
					t.Fatalf("the program says %q, want %q", got, want)
				}
				if flip != nil {
					if _, err := src.Control(t.Context(), flip); err != nil {
						t.Fatal(err)
					}
				}
				if n < 2 {
					target.step()
				}
			}
			target.finish(success)
			sink.wait(t)
			if got := sink.ints("arg0"); len(got) != 1 || got[0] != 3 {
				t.Errorf("rows of calls %v, want of the third alone", got)
			}
		})
	}
}
