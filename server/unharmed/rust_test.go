package unharmed

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// clockError is the maximum difference of two clock readings of the same instant:
// eBPF programs read the clock without the lock that updates it.
const clockError = time.Microsecond

// TestRustDurations compares the durations of calls of a Rust program with the
// program's own measurements: inside the call, which can only be shorter, and around
// it, which can only be longer. Each call of a function that always returns is one
// row, and calls left by a panic are counted as unfinished.
func TestRustDurations(t *testing.T) {
	testenv.NeedUprobes(t)
	var rust *program
	for _, p := range programs(t) {
		if p.name() == "panics" {
			rust = p
		}
	}
	for _, flags := range rust.builds {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			b := rust.compile(t, flags)
			want := b.untouched(t, 1)
			names := slices.Sorted(maps.Keys(want.calls))
			where := " WHERE function_name IN (" + quoted(names) + ")"
			s := session(t, wire.Options{Exe: b.path}, nil)
			durations := arm(t, s, "SELECT function_name, SUM(duration) FROM function_duration"+where+" GROUP BY function_name")
			counts := arm(t, s, everyCall(where))
			classes := arm(t, s, "SELECT class, COUNT(*) FROM function_start"+where+" GROUP BY class")
			got := b.untouched(t, rounds)
			for _, r := range []wire.Result{durations, counts, classes} {
				r.Stop()
			}
			sums, n, byClass := read(t, durations), read(t, counts), read(t, classes)
			var left int64
			ofClass := map[string]int64{}
			for _, name := range names {
				calls, rows := got.calls[name], n.rows[name]
				ofClass[classOf(name)] += calls
				took, returns := got.took[name]
				if !returns || rows != calls {
					left += calls - rows
					continue
				}
				sum, slack := sums.rows[name], calls*int64(clockError)
				if sum < took.within-slack || sum > took.around+slack {
					t.Errorf("%s: %d calls took %v in all; the program saw %v from within and %v from outside", name, calls,
						time.Duration(sum), time.Duration(took.within), time.Duration(took.around))
				}
			}
			for _, name := range []string{"panics::work", "panics::deep", "<panics::Rest as panics::Shape>::area"} {
				if n.rows[name] != got.calls[name] || got.calls[name] == 0 {
					t.Errorf("%s: %d rows of %d calls; %v", name, n.rows[name], got.calls[name], n.notices)
				}
			}
			if rows := n.rows["panics::thrower"]; rows != 0 || isSkipped(n, "panics::thrower") {
				t.Errorf("%d calls returned of a function that does not; %v", rows, n.notices)
			}
			if left != n.notRows() {
				t.Errorf("%d calls gave no row, and the footer says: %s\nrows %v\ncalls %v", left, n.footer(), n.rows, got.calls)
			}
			if !maps.Equal(ofClass, byClass.rows) {
				t.Errorf("calls by class: %v; the program counts %v; %v", byClass.rows, ofClass, byClass.notices)
			}
		})
	}
}

// classOf returns the part of a Rust path before the function name.
func classOf(name string) string { return name[:strings.LastIndex(name, "::")] }
