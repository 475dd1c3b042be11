package fleet

import (
	"slices"
	"strings"
	"testing"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

const changeStatement = "SELECT arg0, COUNT(*) AS n FROM function_start GROUP BY arg0 HAVING COUNT(*) > 1 EMIT CHANGES"

// The result of a group is computed from all hosts when one of them has changed
// it; rows of a lost host remain included.
func TestChangesOfHosts(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	r := results(t, sessionOf(a, b), changeStatement)
	a.send(a.rows([]int64{0, 1, 1}, []int64{0, 2, 6}), flush) // HAVING leaves the first one out
	expect(t, r, "2 6")
	b.send(b.rows([]int64{0, 1, 10}), flush)
	expect(t, r, "1 11")
	b.send(b.rows([]int64{0, 1, 20}, []int64{0, 2, 20}), flush)
	expect(t, r, "1 21,2 26")
	b.fail()
	a.send(a.rows([]int64{0, 2, 7}), flush)
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
	a.send(a.rows([]int64{0, 1, 2}), flush)
	expect(t, r, "1 2")
	a.send(a.rows([]int64{0, 1, 3}, []int64{0, 2, 3}), flush)
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

// A group may arrive as several rows, each with a part of its state: those of a
// host replace all its earlier ones.
func TestChangesInPartsOfHosts(t *testing.T) {
	cols := append(slices.Clone(totalColumns), wire.Column{Name: "bucket", Type: types.Bigint}, wire.Column{Name: "n", Type: types.Bigint})
	a, b := newScripted("a", cols...), newScripted("b", cols...)
	r := results(t, sessionOf(a, b), "SELECT arg0, COUNT(*) AS n, HISTOGRAM(arg1) IS NOT NULL AS some FROM function_start GROUP BY arg0 EMIT CHANGES")
	a.send(a.rows([]int64{0, 1, 4, 0, 0}), a.rows([]int64{0, 1, 0, 5, 1}, []int64{0, 1, 0, 6, 3}), flush)
	expect(t, r, "1 4 1")
	b.send(b.rows([]int64{0, 1, 2, 0, 0}, []int64{0, 1, 0, 5, 2}), flush)
	expect(t, r, "1 6 1")
	a.send(a.rows([]int64{0, 1, 5, 0, 0}, []int64{0, 1, 0, 5, 5}), flush)
	expect(t, r, "1 7 1")
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
	timed := []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "time", Type: types.Bigint}, {Name: "value", Type: types.Bigint}, {Name: "n", Type: types.Bigint},
		{Name: "time", Type: types.Bigint}, {Name: "value", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}
	a, b := newScripted("a", timed...), newScripted("b", timed...)
	a.ahead, b.ahead = 1000, -50
	r := results(t, sessionOf(a, b), "SELECT FIRST(arg0) AS f, LAST(arg0) AS l FROM function_start")
	a.send(a.rows([]int64{0, 1100, 1, 2, 1200, 2, 2}), flush) // 100 and 200
	b.send(b.rows([]int64{0, 49, 3, 2, 151, 4, 2}), flush)    // 99 and 201
	a.end()
	b.end()
	if got := rest(t, r); !slices.Equal(got, []string{"3 4"}) {
		t.Errorf("they are %q", got)
	}
	if notes := r.Summary().Notes; !slices.Contains(notes, "first and last values are right within ±0s") {
		t.Errorf("the footer has %q", notes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Of equal times, the values decide which is first and last, whichever host's rows
// arrive first.
func TestTheFirstAtOneTime(t *testing.T) {
	columns := []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "time", Type: types.Bigint}, {Name: "value", Type: types.Bigint}, {Name: "n", Type: types.Bigint},
		{Name: "time", Type: types.Bigint}, {Name: "value", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}
	for _, turned := range []bool{false, true} {
		a, b := newScripted("a", columns...), newScripted("b", columns...)
		b.ahead = 50
		r := results(t, sessionOf(a, b), "SELECT FIRST(arg0) AS f, LAST(arg0) AS l FROM function_start")
		first, second := a, b
		if turned {
			first, second = b, a
		}
		rows := map[*scripted][]int64{a: {0, 100, 7, 1, 100, 7, 1}, b: {0, 150, 5, 1, 150, 5, 1}}
		first.send(first.rows(rows[first]))
		first.end()
		second.send(second.rows(rows[second]))
		second.end()
		if got := rest(t, r); !slices.Equal(got, []string{"5 7"}) {
			t.Errorf("they are %q", got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
