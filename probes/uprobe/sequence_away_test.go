package uprobe

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// Where a goroutine's g cannot be read, because the kernel is moving its page, a call
// that ends is still identified if it is the innermost of a sequence. Others are
// counted, and marked in the sequence.
func TestGoroutinesThatCannotBeRead(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/gohides")
	const cause = "goroutine that could not be read"
	functions := testplan.Named("main.outer", "main.inner")
	p := provider(t, Options{})
	r := run(t, target)
	_, sequence := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), functions, append(sequenceColumns, "goroutine")...))
	_, durations := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), functions, "timestamp", "function_name", "duration"))
	r.finish(success)

	all := sequence.wait(t).goroutines(t)
	if names := slices.Collect(maps.Keys(all)); len(names) != 1 {
		t.Fatalf("sequences of goroutines %q, want those of one", names)
	}
	whole := []string{"ENTER main.outer 0", "ENTER main.inner 1", "LEAVE main.inner 1", "LEAVE main.outer 0"}
	want := slices.Concat(
		whole, // nothing is unreadable
		whole, // g is unreadable at both exits
		[]string{"ENTER main.outer 0", "GAP  0", "LEAVE main.outer 0"}, // and already at the entry of inner
		whole,
	)
	for _, got := range all {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(map[string]uint64{cause: 2}, sequence.lost); diff != "" || len(sequence.counts) > 0 {
		t.Errorf("lost: %s counts %v", diff, sequence.counts)
	}

	// The innermost call is not recorded where it is not needed.
	rows := tally(durations.wait(t).strings("function_name"))
	if diff := cmp.Diff(map[string]int{"main.outer": 2, "main.inner": 2}, rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]uint64{cause: 2 + 3}, durations.lost); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]uint64{"unfinished": 3}, durations.counts); diff != "" {
		t.Error(diff)
	}
}
