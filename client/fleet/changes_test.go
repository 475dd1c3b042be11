package fleet

import (
	"slices"
	"strings"
	"testing"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

const changeStatement = "SELECT arg0, COUNT(*) AS n FROM function_start GROUP BY arg0 HAVING COUNT(*) > 1 EMIT CHANGES"

// What is given of a group is what all hosts have of it, when one of them has more; what
// a host that is gone had stays in.
func TestChangesOfHosts(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	r := results(t, sessionOf(a, b), changeStatement)
	a.give(a.rows([]int64{1, 1}, []int64{2, 5}, []int64{2, 6})) // HAVING leaves the first one out
	expect(t, r, "2 6")
	b.give(b.rows([]int64{1, 10}))
	expect(t, r, "1 11")
	b.give(b.rows([]int64{1, 20}, []int64{2, 20}))
	expect(t, r, "1 21,2 26")
	b.die()
	a.give(a.rows([]int64{2, 7}))
	a.end()
	got := rest(t, r)
	slices.Sort(got) // when it is heard that b is lost is left open
	if !slices.Equal(got, []string{"2 27", "b is lost, and the others go on: it does not answer"}) {
		t.Errorf("the rest is %q", got)
	}
	if sum := r.Summary(); sum.Rows != 5 || !strings.HasPrefix(sum.Notes[0], "1 of 2 hosts") {
		t.Errorf("%+v", sum)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A LIMIT is of all changes.
func TestSomeChangesOfHosts(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	r := results(t, sessionOf(a, b), strings.Replace(changeStatement, "EMIT", "LIMIT 2 EMIT", 1))
	a.give(a.rows([]int64{1, 2}))
	expect(t, r, "1 2")
	a.give(a.rows([]int64{1, 3}, []int64{2, 3}))
	if got := rest(t, r); !slices.Equal(got, []string{"1 3"}) {
		t.Errorf("the rest is %q", got)
	}
	if sum := r.Summary(); sum.Rows != 2 {
		t.Errorf("%+v", sum)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// The distinct values of a group come from all hosts, each of which gives a row for each
// of them; the others are merged by the way.
func TestDistinctChangesOfHosts(t *testing.T) {
	cols := append(slices.Clone(totalColumns), wire.Column{Name: "d0", Type: types.Bigint})
	a, b := newScripted("a", cols...), newScripted("b", cols...)
	r := results(t, sessionOf(a, b), "SELECT arg0, COUNT(*) AS n, COUNT(DISTINCT arg1) AS d FROM function_start GROUP BY arg0 EMIT CHANGES")
	a.give(a.rows([]int64{1, 4, 7}, []int64{1, 1, 8}))
	expect(t, r, "1 5 2")
	b.give(b.rows([]int64{1, 2, 8}))
	expect(t, r, "1 7 2")
	b.give(b.rows([]int64{1, 3, 8}, []int64{1, 1, 9}))
	expect(t, r, "1 9 3")
	a.end()
	b.end()
	if got := rest(t, r); len(got) > 0 {
		t.Errorf("there is more: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// FIRST and LAST are by the hosts' times, each less by how much its clock is ahead.
func TestTheLastOfHosts(t *testing.T) {
	timed := []wire.Column{{Name: "v0", Type: types.Bigint}, {Name: "v1", Type: types.Timestamp}, {Name: "v2", Type: types.Bigint}, {Name: "v3", Type: types.Timestamp}}
	a, b := newScripted("a", timed...), newScripted("b", timed...)
	a.ahead, b.ahead = 1000, -50
	r := results(t, sessionOf(a, b), "SELECT FIRST(arg0) AS f, LAST(arg0) AS l FROM function_start")
	a.give(a.rows([]int64{1, 1100, 2, 1200})) // 100 and 200
	b.give(b.rows([]int64{3, 49, 4, 151}))    // 99 and 201
	a.end()
	b.end()
	if got := rest(t, r); !slices.Equal(got, []string{"3 4"}) {
		t.Errorf("they are %q", got)
	}
	if notes := r.Summary().Notes; !slices.Contains(notes, "what is first and last between hosts is right within ±0s") {
		t.Errorf("the footer has %q", notes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
