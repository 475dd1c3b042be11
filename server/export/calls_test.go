package export

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	_ "endoscope/operators/optest/seeds"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/flow"
)

// made is a call of a program that a test makes up. Its name is unique.
type made struct {
	name       string
	parent     string
	start, end int64
	depth      int64
	thread     int64
}

// makeCalls makes calls of a thread, nested at random, in the order of their ends.
func makeCalls(t *rapid.T, thread int64) (all []made) {
	clock, n := int64(0), 0
	var call func(parent string, depth int64)
	call = func(parent string, depth int64) {
		n++
		c := made{name: fmt.Sprintf("%d-%d", thread, n), parent: parent, depth: depth, thread: thread, start: clock}
		clock += int64(rapid.IntRange(0, 1).Draw(t, "step"))
		for n < 60 && depth < 6 && rapid.IntRange(0, 2).Draw(t, "nested") > 0 {
			call(c.name, depth+1)
			clock++
		}
		clock++
		c.end = clock
		all = append(all, c)
	}
	for range rapid.IntRange(1, 4).Draw(t, "roots") {
		call("", 0)
	}
	return all
}

type collector struct{ spans []*span }

func (c *collector) addSpans(s []*span) { c.spans = append(c.spans, s...) }

var callColumns = []types.Type{types.Varchar, types.Varchar, types.Timestamp, types.Timestamp, types.Bigint, types.Bigint, types.Bigint, types.Bigint, types.Varchar}

func newTestCalls(events bool, queue int) (*calls, *collector, *flow.Tally) {
	at := &planner.Spans{Events: events, Name: 0, Event: 1, Start: 2, End: 3, PID: 4, TID: 5, Depth: 6, Goroutine: 7, Trace: 8}
	tally, to := flow.NewTally(), &collector{}
	p := &planner.Export{Spans: at, Options: planner.ExportOptions{Queue: queue, Hold: time.Second}, Query: &plan.Query{}}
	c := newCalls(p, nil, tally)
	c.to = to
	c.now = func() int64 { return 0 }
	return c, to, tally
}

func pushCall(t interface{ Fatal(...any) }, c *calls, m made, event string, trace types.Value) {
	b := batch.New(callColumns)
	defer b.Release()
	start := m.start
	if event == "LEAVE" {
		start = m.end
	}
	end := start
	if event == "" {
		end = m.end
	}
	b.AppendRow(types.Str(m.name), types.Str(event), types.Time(start), types.Time(end), types.Int(1), types.Int(m.thread), types.Int(m.depth), types.NullOf(types.Bigint), trace)
	if _, err := c.Push(context.Background(), 0, b); err != nil {
		t.Fatal(err)
	}
}

var none = types.NullOf(types.Varchar)

func parents(t interface{ Fatalf(string, ...any) }, spans []*span) map[string]string {
	names := map[[8]byte]*span{}
	for _, s := range spans {
		names[s.id] = s
	}
	out := map[string]string{}
	for _, s := range spans {
		up := names[s.parent]
		if out[s.name] = ""; up != nil {
			out[s.name] = up.name
			if up.trace != s.trace {
				t.Fatalf("%s is in another trace than %s", s.name, up.name)
			}
		}
	}
	return out
}

// The parents of spans are the calls that enclose them, for threads whose calls end in any
// order, from finished calls and from events.
func TestParentsAreTheEnclosingCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, got, tally := newTestCalls(rapid.Bool().Draw(t, "events"), 1000)
		var threads [][]made
		want := map[string]string{}
		for i := range rapid.IntRange(1, 3).Draw(t, "threads") {
			all := makeCalls(t, int64(i))
			for _, m := range all {
				want[m.name] = m.parent
			}
			threads = append(threads, all)
		}
		if c.at.Events {
			for _, all := range threads {
				// An entry comes before what happens later, and a return after.
				type event struct {
					made
					kind string
				}
				var order []event
				var enter func(parent string)
				enter = func(parent string) {
					var below []made
					for _, m := range all {
						if m.parent == parent {
							below = append(below, m)
						}
					}
					slices.SortStableFunc(below, func(a, b made) int { return int(a.end - b.end) })
					for _, m := range below {
						order = append(order, event{m, "ENTER"})
						enter(m.name)
						order = append(order, event{m, "LEAVE"})
					}
				}
				enter("")
				for _, e := range order {
					pushCall(t, c, e.made, e.kind, none)
				}
			}
		} else {
			for len(threads) > 0 {
				i := rapid.IntRange(0, len(threads)-1).Draw(t, "thread")
				pushCall(t, c, threads[i][0], "", none)
				if threads[i] = threads[i][1:]; len(threads[i]) == 0 {
					threads = slices.Delete(threads, i, i+1)
				}
			}
		}
		if c.held != 0 || len(c.sequences) != 0 || len(tally.Losses())+len(tally.Counts()) != 0 {
			t.Fatalf("%d are held, %d sequences, %v %v", c.held, len(c.sequences), tally.Losses(), tally.Counts())
		}
		found := parents(t, got.spans)
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Fatalf("%v\nwant %v", found, want)
		}
	})
}

// Calls whose enclosing call does not come in time become roots, which is counted; so do all
// when too many wait.
func TestCallsDoNotWaitForEver(t *testing.T) {
	c, got, tally := newTestCalls(false, 3)
	now := int64(0)
	c.now = func() int64 { return now }
	pushCall(t, c, made{name: "inner", depth: 1, start: 1, end: 2}, "", none)
	now = 3e9
	if _, err := c.Signal(t.Context(), 0, operators.Signal{Kind: operators.Watermark}); err != nil {
		t.Fatal(err)
	}
	if len(got.spans) != 1 || tally.Counts()[0].N != 1 || c.held != 0 {
		t.Errorf("%d spans, %v", len(got.spans), tally.Counts())
	}
	for i := range int64(4) {
		pushCall(t, c, made{name: fmt.Sprint(i), depth: 1, start: 2*i + 10, end: 2*i + 11}, "", none)
	}
	if len(got.spans) != 5 || c.held != 0 {
		t.Errorf("%d spans, %d held", len(got.spans), c.held)
	}
}

// A gap cuts the calls in progress, which is counted; a return without an entry is nothing.
func TestGapsCutCalls(t *testing.T) {
	c, got, tally := newTestCalls(true, 100)
	pushCall(t, c, made{name: "before", depth: 0}, "LEAVE", none)
	pushCall(t, c, made{name: "a", depth: 0}, "ENTER", none)
	pushCall(t, c, made{name: "b", depth: 1}, "ENTER", none)
	pushCall(t, c, made{depth: 0}, "GAP", none)
	pushCall(t, c, made{name: "b", depth: 1}, "LEAVE", none)
	pushCall(t, c, made{name: "c", depth: 0}, "ENTER", none)
	pushCall(t, c, made{name: "c", depth: 0}, "UNWIND", none)
	if l := tally.Losses(); len(got.spans) != 1 || got.spans[0].name != "c" || len(l) != 1 || l[0].N != 2 || c.held != 0 {
		t.Errorf("%d spans, %v, %d held", len(got.spans), l, c.held)
	}
}

// A trace is that of the call that names it; without one, that of the calls below if they
// agree. A call that names another one begins it, linked with the call that encloses it.
func TestTraces(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	c, got, _ := newTestCalls(false, 100)
	pushCall(t, c, made{name: "inner", depth: 2, start: 2, end: 3}, "", types.Str(id))
	pushCall(t, c, made{name: "middle", depth: 1, start: 1, end: 4}, "", none)
	pushCall(t, c, made{name: "outer", depth: 0, start: 0, end: 5}, "", none)
	for _, s := range got.spans {
		if fmt.Sprintf("%x", s.trace.id) != id {
			t.Errorf("%s is in trace %x", s.name, s.trace.id)
		}
	}
	got.spans = nil
	pushCall(t, c, made{name: "one", depth: 1, start: 11, end: 12}, "", types.Str("00-"+id+"-00f067aa0ba902b7-01"))
	pushCall(t, c, made{name: "two", depth: 1, start: 13, end: 14}, "", types.Str("two"))
	pushCall(t, c, made{name: "loop", depth: 0, start: 10, end: 15}, "", none)
	by := map[string]*span{}
	for _, s := range got.spans {
		by[s.name] = s
	}
	one, two, loop := by["one"], by["two"], by["loop"]
	if fmt.Sprintf("%x %x", one.trace.id, one.parent) != id+" 00f067aa0ba902b7" || one.link != loop || two.link != loop || two.trace == one.trace || loop.trace == one.trace || two.parent != [8]byte{} {
		t.Errorf("%x in %x, linked %v; %x in %x", one.trace.id, one.parent, one.link != nil, two.trace.id, two.parent)
	}
}
