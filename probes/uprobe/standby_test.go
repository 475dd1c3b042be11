package uprobe

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// outer is under way when the second line arrives.
const standbyProgram = `
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
NOINLINE long inner(long i) { sink += i; return i; }
NOINLINE long outer(long i)
{
	char b[8];
	long r = 0;
	for (long k = 0; k < 40; k++)
		r += inner(i + k);
	puts("half");
	fflush(stdout);
	if (!fgets(b, sizeof b, stdin))
		return 9;
	for (long k = 40; k < 80; k++)
		r += inner(i + k);
	return r;
}
int main(void)
{
	char b[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(b, sizeof b, stdin))
		return 9;
	outer(1000);
	for (long i = 0; i < 20; i++)
		inner(i);
	return 0;
}`

// A source on standby reports the same as a source started at Begin, and nothing from
// before: neither calls that ended earlier nor the one that was under way.
func TestStandby(t *testing.T) {
	testenv.NeedUprobes(t)
	streams := map[string][]string{
		catalog.FunctionStart:    {"function_name", "arg0", "tid"},
		catalog.FunctionDuration: {"function_name", "arg0", "depth"},
		catalog.FunctionCall:     {"event", "function_name", "depth"},
	}
	for stream, cols := range streams {
		modes := returnModes
		if stream == catalog.FunctionCall {
			modes = trapModes
		}
		t.Run(stream, func(t *testing.T) {
			modes(t, func(t *testing.T, o Options) {
				target := run(t, testenv.CompileCText(t, standbyProgram))
				p := provider(t, o)
				spec := func() *plan.Acquire {
					return testplan.Acquire(stream, target.target(), testplan.Named("inner", "outer"), cols...)
				}
				src, early := standingBy(t, p, spec())
				target.step()
				if line := target.line(); line != "half" {
					t.Fatalf("the target says %q", line)
				}
				_, late := start(t, p, spec())
				if n, ns := src.Stats().Waited, src.Info().WaitNs; n != 41 || ns <= 0 {
					t.Errorf("%d calls at %.0fns were overlooked, want 41", n, ns)
				}
				if _, err := src.Control(t.Context(), probes.Begin{}); err != nil {
					t.Fatal(err)
				}
				target.finish(success)
				early.wait(t)
				late.wait(t)
				if len(late.rows) < 60 {
					t.Fatalf("there are only %d rows", len(late.rows))
				}
				if diff := cmp.Diff(late.rows, early.rows); diff != "" {
					t.Errorf("what stood by differs from what began then (-, +):\n%s", diff)
				}
				if n := late.counts[probes.Unfinished]; early.counts[probes.Unfinished] != n || len(early.lost) > 0 {
					t.Errorf("unfinished: %d, want %d; lost %v", early.counts[probes.Unfinished], n, early.lost)
				}
			})
		})
	}
}

// An aggregate contains the calls from Begin on.
func TestStandbyAggregates(t *testing.T) {
	testenv.NeedUprobes(t)
	target := run(t, testenv.CompileCText(t, standbyProgram))
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, target.target(), testplan.Named("inner", "outer"), "timestamp", "function_name"), 0, nil, agg("count"))
	p := provider(t, Options{})
	unused, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.Load(t.Context(), probes.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := unused.Stop(); err != nil { // it has aggregated nothing
		t.Fatal(err)
	}
	src, got := standingBy(t, p, spec)
	if !src.Info().Aggregates {
		t.Fatal("it is not aggregated in the kernel")
	}
	target.step()
	target.line()
	if _, err := src.Control(t.Context(), probes.Begin{}); err != nil {
		t.Fatal(err)
	}
	target.finish(success)
	got.wait(t)
	if m := groups(t, spec, got.parts, got.rows)[""]; len(m) != 1 || m[0].N != 60 {
		t.Errorf("counted %+v, want 60", m)
	}
}

// A source on standby can be stopped, and ends with its target.
func TestStandbyEnds(t *testing.T) {
	testenv.NeedUprobes(t)
	target := run(t, testenv.CompileCText(t, standbyProgram))
	p := provider(t, Options{})
	stopped, a := standingBy(t, p, testplan.Acquire(catalog.FunctionDuration, target.target(), testplan.Named("inner"), "arg0"))
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	orphan, b := standingBy(t, p, testplan.Acquire(catalog.FunctionDuration, target.target(), testplan.Named("inner"), "arg0"))
	target.step()
	target.line()
	target.finish(success)
	for _, r := range []*record{a.wait(t), b.wait(t)} {
		if len(r.rows) > 0 || len(r.counts) > 0 {
			t.Errorf("rows %v, counts %v", r.rows, r.counts)
		}
	}
	if _, err := orphan.Control(t.Context(), probes.Begin{}); err != nil {
		t.Errorf("to begin with what has ended is an error: %v", err)
	}
	if left := p.Probes(); slices.ContainsFunc(left, func(s probes.Site) bool { return s.Function == "inner" }) {
		t.Errorf("still attached: %v", left)
	}
}

// standingBy prepares an acquisition and starts it on standby.
func standingBy(t *testing.T, p *Provider, spec *plan.Acquire) (probes.Source, *record) {
	t.Helper()
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Stop() })
	sink := newRecord(spec)
	if err := src.Start(t.Context(), sink, probes.Options{Standby: true}); err != nil {
		t.Fatal(err)
	}
	return src, sink
}
