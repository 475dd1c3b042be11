package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

var spanColumns = []wire.Column{{Name: "ws", Type: types.Timestamp}, {Name: "we", Type: types.Timestamp}, {Name: "t0", Type: types.Timestamp}, {Name: "t1", Type: types.Timestamp},
	{Name: "c", Type: types.Bigint}, {Name: "p0", Type: types.Bigint}, {Name: "v0", Type: types.Bigint}}

const sessionStatement = "SELECT window_start, window_end, SUM(arg0) AS n FROM SESSION(function_start, 10ns PARTITION BY tid)"

// A session is rows of any host that are less than the gap apart, and comes when none can
// have more of it. Times are by this machine's clock.
func TestSessionsOfHosts(t *testing.T) {
	a, b := newScripted("a", spanColumns...), newScripted("b", spanColumns...)
	a.ahead, a.by = 100, time.Microsecond
	r := results(t, sessionOf(a, b), sessionStatement)
	// Of a: 3 to 8, and 31 by this clock; of b: 17 to 19, which joins the first, and 41,
	// which does not join the second.
	a.give(a.rows([]int64{100, 110, 103, 108, 2, 1, 5}, []int64{130, 140, 131, 131, 1, 1, 7}), mark(140))
	b.give(b.rows([]int64{10, 20, 17, 19, 2, 1, 50}), mark(30))
	expect(t, r, "3 29 55", "flush")
	// What is another partition's is another session; of rows of which none counts a
	// session is, but no result.
	b.give(b.rows([]int64{30, 40, 31, 31, 1, 2, 1}, []int64{40, 50, 41, 41, 1, 1, 2}, []int64{40, 50, 45, 45, 0, 2, 0}, []int64{60, 70, 62, 62, 0, 2, 0}), mark(70))
	a.give(mark(180))
	// That of both partitions begins and ends at the same times: it is one window.
	expect(t, r, "31 41 8", "flush", "41 51 2", "flush")
	b.give(b.rows([]int64{30, 40, 35, 35, 1, 1, 2})) // its session is closed
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

// Of a condition what is about the partition says what hosts observe.
func TestConditionsOfSessions(t *testing.T) {
	const statement = "SELECT COUNT(*) AS n FROM SESSION(function_start, 10ns PARTITION BY function_name, tid) AS f WHERE (f.function_name = 'a' OR f.function_name LIKE 'b%') AND arg0 > 3 AND tid IN (1, 2)"
	stmt, err := parser.Parse(statement)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := splitQuery(stmt.(*parser.Query), statement)
	if err != nil {
		t.Fatal(err)
	}
	if want := "FROM TUMBLE(function_start, 10ns) AS f WHERE (f.function_name = 'a' OR f.function_name LIKE 'b%') AND (tid IN (1, 2)) GROUP BY function_name, tid"; !strings.Contains(sp.each, want) || !strings.Contains(sp.each, "count(*) FILTER (WHERE arg0 > 3) AS v0") {
		t.Errorf("hosts execute %s", sp.each)
	}
}

// A session is not given while a host may have more of it.
func TestSessionsThatGoOn(t *testing.T) {
	a, b := newScripted("a", spanColumns...), newScripted("b", spanColumns...)
	r := results(t, sessionOf(a, b), sessionStatement)
	a.give(a.rows([]int64{100, 110, 101, 101, 1, 1, 1}), mark(200))
	b.give(b.rows([]int64{80, 90, 85, 85, 1, 2, 9}), mark(119))
	expect(t, r, "85 95 9", "flush") // that of a would end at 111, but b may still give a row of 110, in the window that it is in
	b.give(b.rows([]int64{110, 120, 110, 110, 1, 1, 2}), mark(129))
	b.give(b.rows([]int64{120, 130, 120, 120, 1, 1, 4}), mark(130)) // the gap after 110: another session's
	a.end()
	b.end()
	if got := rest(t, r); !slices.Equal(got, []string{"101 120 3", "flush", "120 130 4", "flush"}) {
		t.Errorf("it is %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
