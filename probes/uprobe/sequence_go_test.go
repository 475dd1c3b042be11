package uprobe

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
)

var goSequenceFunctions = []string{"main.leaf", "main.deep", "main.fib", "main.relay", "main.catches", "main.fails", "main.ends", "main.(*T).work", "main.sums", "main.sum"}

// goroutines are the events of each goroutine as text, in the order received.
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

// The sequence of each goroutine is the one that it writes down, on whatever
// threads it runs, however its stack grows, whatever panics and whoever had its
// g before.
func TestSequencesOfGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	const goroutines, rounds = 200, 21
	for _, flags := range [][]string{nil, {"-gcflags=-N -l"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			target := testenv.CompileGo(t, "testdata/gosequence", flags...)
			p := provider(t, Options{RingBytes: 64 << 20})
			r := run(t, target, fmt.Sprint(goroutines), fmt.Sprint(rounds))
			_, got := start(t, p, acquisition(FunctionCall, r.target(), named(goSequenceFunctions...), append(sequenceColumns, "tid", "goroutine")...))
			told := toldBy(r.finish(success))
			if len(told) < goroutines {
				t.Fatalf("%d goroutines told of calls", len(told))
			}
			sameSequences(t, told, got.wait(t).goroutines(t))
			events := tally(got.strings("event"))
			if events[eventEnter] != events[eventLeave]+events[eventUnwind] || events[eventUnwind] < 500 || len(events) != 3 {
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
