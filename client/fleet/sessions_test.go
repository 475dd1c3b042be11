package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/operators/optest"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// The columns of pieces of sessions: of the window, the partition, when the first and
// the last row was, how many count, and the sum.
var spanColumns = []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "window_start", Type: types.Timestamp}, {Name: "window_end", Type: types.Timestamp}, {Name: "tid", Type: types.Bigint},
	{Name: "value", Type: types.Timestamp}, {Name: "n", Type: types.Bigint}, {Name: "value", Type: types.Timestamp}, {Name: "n", Type: types.Bigint}, {Name: "n", Type: types.Bigint},
	{Name: "lo", Type: types.Bigint}, {Name: "hi", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}

const sessionStatement = "SELECT window_start, window_end, SUM(arg0) AS n FROM SESSION(function_start, 10ns PARTITION BY tid)"

// A session consists of rows of any host that are less than the gap apart, and is
// returned when no host can have more of it. Times are by this machine's clock.
func TestSessionsOfHosts(t *testing.T) {
	a, b := newScripted("a", spanColumns...), newScripted("b", spanColumns...)
	a.ahead, a.by = 100, time.Microsecond
	r := results(t, sessionOf(a, b), sessionStatement)
	// Of a: 3 to 8, and 31 by this clock; of b: 17 to 19, which joins the first, and 41,
	// which does not join the second.
	a.send(a.rows([]int64{0, 100, 110, 1, 103, 1, 108, 1, 2, 5, 0, 2}, []int64{0, 130, 140, 1, 131, 1, 131, 1, 1, 7, 0, 1}), flush, mark(140))
	b.send(b.rows([]int64{0, 10, 20, 1, 17, 1, 19, 1, 2, 50, 0, 2}), flush, mark(30))
	expect(t, r, "3 29 55", "flush")
	// Another partition is another session; a session whose rows all do not count has
	// no result.
	b.send(b.rows([]int64{0, 30, 40, 2, 31, 1, 31, 1, 1, 1, 0, 1}, []int64{0, 40, 50, 1, 41, 1, 41, 1, 1, 2, 0, 1}, []int64{0, 40, 50, 2, 45, 1, 45, 1, 0, 0, 0, 0}, []int64{0, 60, 70, 2, 62, 1, 62, 1, 0, 0, 0, 0}), flush, mark(70))
	a.send(mark(180))
	// That of both partitions begins and ends at the same times: it is one window.
	expect(t, r, "31 41 8", "flush", "41 51 2", "flush")
	b.send(b.rows([]int64{0, 30, 40, 1, 35, 1, 35, 1, 1, 2, 0, 1})) // its session is closed
	a.end()
	b.end()
	if got := rest(t, r); len(got) > 0 {
		t.Errorf("there is more: %q", got)
	}
	sum := r.Summary()
	if sum.Rows != 3 || len(sum.Losses) != 1 || sum.Losses[0] != (wire.Loss{Cause: lateCause, N: 1}) || !slices.Contains(sum.Notes, "sessions of all hosts are right within ±1µs") {
		t.Errorf("%+v", sum)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// The part of a condition that is on the partition restricts what hosts observe.
func TestConditionsOfSessions(t *testing.T) {
	lower, _, err := sharePlan("a", "SELECT COUNT(*) AS n FROM SESSION(function_start, 10ns PARTITION BY function_name, tid) AS f WHERE (f.function_name = 'a' OR f.function_name LIKE 'b%') AND arg0 > 3 AND tid IN (1, 2)")
	if err != nil {
		t.Fatal(err)
	}
	text := optest.Tree(lower.Root)
	for _, want := range []string{"window tumble 10ns", "functions (function_name = 'a') or (function_name like 'b%')", "tid in (1, 2)", "count(*) filter (where arg0 > 3)"} {
		if !strings.Contains(strings.ToLower(text), want) {
			t.Errorf("hosts execute\n%swithout %s", text, want)
		}
	}
}

// A session is not returned while a host may have more of it.
func TestSessionsThatGoOn(t *testing.T) {
	a, b := newScripted("a", spanColumns...), newScripted("b", spanColumns...)
	r := results(t, sessionOf(a, b), sessionStatement)
	a.send(a.rows([]int64{0, 100, 110, 1, 101, 1, 101, 1, 1, 1, 0, 1}), flush, mark(200))
	b.send(b.rows([]int64{0, 80, 90, 2, 85, 1, 85, 1, 1, 9, 0, 1}), flush, mark(119))
	expect(t, r, "85 95 9", "flush") // that of a would end at 111, but b may still send a row of 110, in its current window
	b.send(b.rows([]int64{0, 110, 120, 1, 110, 1, 110, 1, 1, 2, 0, 1}), flush, mark(129))
	b.send(b.rows([]int64{0, 120, 130, 1, 120, 1, 120, 1, 1, 4, 0, 1}), flush, mark(130)) // the gap after 110: another session's
	a.end()
	b.end()
	if got := rest(t, r); !slices.Equal(got, []string{"101 120 3", "flush", "120 130 4", "flush"}) {
		t.Errorf("it is %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
