package uprobe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

var goSequenceFunctions = []string{"main.leaf", "main.deep", "main.fib", "main.relay", "main.catches", "main.fails", "main.ends", "main.(*T).work", "main.sums", "main.sum"}

// goroutines returns the events of each goroutine as text, in the order received.
func (r *record) goroutines(t testing.TB) map[string][]string {
	t.Helper()
	id := slices.Index(r.names, "goroutine")
	for _, row := range r.rows {
		if row[id].IsNull {
			t.Fatalf("event %v is of no goroutine", row)
		}
		row[slices.Index(r.names, "thread_name")].S = strconv.FormatInt(row[id].I, 10)
	}
	return r.sequences(t)
}

// The sequence of each goroutine agrees with the one it records itself, on any threads,
// with growing stacks, panics, reused gs, and arbitrary contents where the g usually is.
func TestSequencesOfGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, build := range []struct {
		name    string
		compile func(testing.TB, string, ...string) string
		flags   []string
	}{
		{"plain", testenv.CompileGo, nil},
		{"unoptimised", testenv.CompileGo, []string{"-gcflags=-N -l"}},
		{"with thread-local data of C", testenv.CompileGoWithC, nil},
		{"with thread-local data of C, relocatable", testenv.CompileGoWithC, []string{"-buildmode=pie"}},
	} {
		t.Run(build.name, func(t *testing.T) {
			const goroutines, rounds = 200, 21
			target := build.compile(t, "testdata/gosequence", build.flags...)
			p := provider(t, Options{RingBytes: 64 << 20})
			r := run(t, target, fmt.Sprint(goroutines), fmt.Sprint(rounds))
			_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(goSequenceFunctions...), append(sequenceColumns, "tid", "goroutine")...))
			told := toldBy(r.finish(success))
			if len(told) < goroutines {
				t.Fatalf("%d goroutines told of calls", len(told))
			}
			sameSequences(t, told, got.wait(t).goroutines(t))
			events := tally(got.strings("event"))
			if events[decode.EventEnter] != events[decode.EventLeave]+events[decode.EventUnwind] || events[decode.EventUnwind] < 500 || len(events) != 3 {
				t.Errorf("events %v", events)
			}
			if len(got.lost)+len(got.counts) > 0 {
				t.Errorf("lost %v, counts %v", got.lost, got.counts)
			}
			if n := len(tally(got.ints("tid"))); n < 2 {
				t.Errorf("all calls began on %d thread", n)
			}
		})
	}
}

// When a program ends, in any way, all calls of its goroutines are left: each ENTER has
// its end. Other programs that end meanwhile have no effect.
func TestGoroutinesOfProgramThatEnds(t *testing.T) {
	testenv.NeedUprobes(t)
	const goroutines = 120
	target := testenv.CompileGo(t, "testdata/goends")
	for _, c := range []struct{ how, end string }{{"exit", success}, {"return", success}, {"killed", "signal: killed"}} {
		t.Run(c.how, func(t *testing.T) {
			p := provider(t, Options{})
			other := run(t, target, "3", "exit")
			r := run(t, target, fmt.Sprint(goroutines), c.how)
			both := plan.Target{PIDs: []int{r.cmd.Process.Pid, other.cmd.Process.Pid}}
			_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, both, testplan.Named("main.down", "main.waits", "main.returns"), append(sequenceColumns, "goroutine", "pid")...))
			others := other.finish(success)
			told := toldBy(r.finish(c.end))
			if len(told) != goroutines {
				t.Fatalf("%d goroutines told of calls", len(told))
			}
			got.wait(t)
			column, n := slices.Index(got.names, "pid"), len(got.rows)
			got.rows = slices.DeleteFunc(got.rows, func(row []types.Value) bool { return row[column].I != int64(r.cmd.Process.Pid) })
			if n -= len(got.rows); n != len(others) {
				t.Errorf("%d events of the other program, which told of %d", n, len(others))
			}
			sameSequences(t, told, got.goroutines(t))
			if len(got.lost)+len(got.counts) > 0 {
				t.Errorf("lost %v, counts %v", got.lost, got.counts)
			}
		})
	}
}

// With a ring that is too small events are lost, and each goroutine's sequence marks
// where.
func TestGapsOfGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/gosequence")
	testenv.Once(t, func() error { return gapsOfGoroutines(t, target) })
}

// gapsOfGoroutines returns an error if too little of the sequences shows anything.
func gapsOfGoroutines(t *testing.T, target string) error {
	t.Helper()
	p := provider(t, Options{RingBytes: 4096})
	r := run(t, target, "30", "42")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(goSequenceFunctions...), append(sequenceColumns, "goroutine")...))
	told := toldBy(r.finish(success))
	events, rows, gaps := 0, 0, 0
	all := got.wait(t).goroutines(t)
	for goroutine, want := range told {
		events += len(want)
		if err := aligned(want, all[goroutine]); err != nil {
			t.Errorf("goroutine %s: %v", goroutine, err)
		}
		for _, l := range all[goroutine] {
			if strings.HasPrefix(l, decode.EventGap) {
				gaps++
			} else {
				rows++
			}
		}
	}
	lost := int(got.lost["ring buffer full"])
	if rows+lost != events || len(got.lost) != 1 {
		t.Errorf("%d events and %v lost, want %d together", rows, got.lost, events)
	}
	t.Logf("%d events, %d lost, %d gaps", rows, lost, gaps)
	if rows < 100 || gaps < 10 {
		return fmt.Errorf("%d events and %d gaps: too few to show anything", rows, gaps)
	}
	return nil
}

// A stripped program does not say where goroutines have their numbers: they are
// distinguished nevertheless.
func TestSequencesOfStrippedGo(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/gosequence", "-ldflags=-s")
	p := provider(t, Options{RingBytes: 64 << 20})
	r := run(t, target, "20", "14")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(goSequenceFunctions...), append(sequenceColumns, "goroutine")...))
	told := toldBy(r.finish(success))
	// A goroutine may reuse the place of another; its calls then follow the other's.
	var want, have []string
	for _, lines := range told {
		want = append(want, strings.Join(lines, "\n"))
	}
	for _, lines := range got.wait(t).goroutines(t) {
		have = append(have, strings.Join(lines, "\n"))
	}
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.Contains(h, w) }) {
			t.Fatalf("no sequence has the calls of a goroutine: %.200q", w)
		}
	}
	if len(have) < 20 || len(have) > len(want) || len(got.lost)+len(got.counts) > 0 {
		t.Errorf("%d sequences of %d goroutines; lost %v, counts %v", len(have), len(want), got.lost, got.counts)
	}
}

// Where the location of a thread's goroutine is unknown, assembly functions are not
// followed: their calls would be reported without a goroutine, or as never returning.
func TestGoroutineThatIsNotToBeFound(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGoWithC(t, "testdata/gosequence", "-ldflags=-s")
	p := provider(t, Options{RingBytes: 64 << 20})
	r := run(t, target, "20", "21")
	src, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(goSequenceFunctions...), append(sequenceColumns, "goroutine")...))
	if said := strings.Join(src.Info().Notices, "\n"); !strings.Contains(said, "main.sum") || !strings.Contains(said, "runtime.tlsg") {
		t.Errorf("notices %q", said)
	}
	r.finish(success)
	got.wait(t)
	names := tally(got.strings("function_name"))
	if names["main.sum"] != 0 || names["main.sums"] == 0 || names["main.leaf"] == 0 {
		t.Errorf("events of %v", names)
	}
	if len(got.lost)+len(got.counts) > 0 {
		t.Errorf("lost %v, counts %v", got.lost, got.counts)
	}
}
