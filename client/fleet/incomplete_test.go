package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// States of a result that a lost host has begun do not count: of a group in two rows one
// would be missing.
func TestIncompleteStatesAreDropped(t *testing.T) {
	const once = "SELECT arg0, COUNT(*) AS n FROM function_start GROUP BY arg0 ORDER BY arg0"
	for _, of := range []struct {
		statement string
		cols      []wire.Column
		whole     []int64 // a row of a result that both hosts send
		begun     []int64 // one of the next result, of a
		other     []int64 // and of b
		want      []string
	}{
		{once, totalColumns, []int64{0, 1, 5}, []int64{0, 1, 100}, []int64{0, 2, 1}, []string{"1 10,2 1"}},
		{windowStatement, windowColumns, []int64{0, 1, 0, 10, 5}, []int64{0, 1, 10, 20, 100}, []int64{0, 2, 10, 20, 1}, []string{"10 1 10", "20 2 1", "flush", "flush"}},
		{sessionStatement, spanColumns, []int64{0, 10, 20, 1, 17, 1, 19, 1, 2, 50, 0, 2}, []int64{0, 50, 60, 1, 51, 1, 51, 1, 1, 9, 0, 1}, []int64{0, 70, 80, 1, 75, 1, 75, 1, 1, 7, 0, 1},
			[]string{"17 29 100", "75 85 7", "flush", "flush"}},
	} {
		a, b := newScripted("a", of.cols...), newScripted("b", of.cols...)
		r := results(t, sessionOf(a, b), of.statement)
		a.send(a.rows(of.whole), flush, a.rows(of.begun))
		a.fail()
		b.send(b.rows(of.whole), flush, b.rows(of.other), flush)
		b.end()
		got := rest(t, r)
		slices.Sort(got)
		if want := append(of.want, "a is lost, and the others go on: it does not answer"); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: it is %q", of.statement, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Totals of a host do not accumulate while another host sends fewer.
func TestTotalsDoNotPileUp(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	r := results(t, sessionOf(a, b), totalStatement)
	b.send(b.rows([]int64{0, 1, 100}), flush)
	a.send(a.rows([]int64{0, 1, 0}), flush)
	expect(t, r, "1 100", "flush")
	var want []string
	for i := range int64(mostRounds + 1) {
		a.send(a.rows([]int64{0, 1, i}), flush)
		want = append(want, fmt.Sprintf("1 %d", 100+i), "flush")
	}
	expect(t, r, want...)
	a.end()
	b.end()
	rest(t, r)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A host that sends unlimited rows as one result is excluded.
func TestEndlessTotals(t *testing.T) {
	a, b := newScripted("a", totalColumns...), newScripted("b", totalColumns...)
	const batches = mostPending/batch.MaxRows + 1
	a.steps = make(chan step, batches+3)
	rows := make([][]int64, batch.MaxRows)
	for i := range rows {
		rows[i] = []int64{0, 1, 1}
	}
	for range batches {
		a.send(a.rows(rows...))
	}
	a.send(flush)
	r := results(t, sessionOf(a, b), totalStatement)
	expect(t, r, "a is left out, and the others go on: it sends more than 1048576 rows at once")
	b.send(b.rows([]int64{0, 1, 7}), flush)
	expect(t, r, "1 7", "flush")
	a.end()
	b.end()
	rest(t, r)
	if notes := r.Summary().Notes; !strings.HasPrefix(notes[0], "1 of 2 hosts (a: it sends more than") {
		t.Errorf("the footer has %q", notes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A host whose plan does not match its rows is declined, and the others continue.
func TestPlansThatDoNotFitAreDeclined(t *testing.T) {
	for _, of := range []struct {
		statement string
		cols      []wire.Column
		edit      func(*plan.Fragment)
	}{
		{rowsStatement, nil, func(f *plan.Fragment) { slices.Reverse(f.Exchange.Pick) }},
		{sessionStatement, spanColumns, func(f *plan.Fragment) { f.Exchange.Spans.Partition = math.MaxInt }},
		{totalStatement, totalColumns, func(f *plan.Fragment) { f.Exchange.Pick[0] = 100 }},
	} {
		if of.cols == nil {
			lower, _, err := sharePlan("a", of.statement)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range lower.Root.Schema().Fields {
				of.cols = append(of.cols, wire.Column{Name: f.Name, Type: f.Type})
			}
		}
		a, b := newScripted("a", of.cols...), newScripted("b", of.cols...)
		a.edit = of.edit
		b.end()
		r := results(t, sessionOf(a, b), of.statement)
		rest(t, r)
		if notes := r.Summary().Notes; !strings.HasPrefix(notes[0], "1 of 2 hosts (a: the plan that the host sent does not fit its rows)") {
			t.Errorf("%s: the footer has %q", of.statement, notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		b.edit = of.edit
		if r, err := sessionOf(a, b).Execute(t.Context(), of.statement); err == nil {
			t.Errorf("%s: no host is left, and there is %v", of.statement, r)
		}
	}
}

// Values that are one group of an engine are one of several hosts, too.
func TestKeysOfGroups(t *testing.T) {
	list := func(v ...types.Value) types.Value { return types.Value{Type: types.List, A: v} }
	for _, of := range []struct {
		a, b types.Value
		same bool
	}{
		{types.Float(0), types.Float(math.Copysign(0, -1)), true},
		{types.Float(math.NaN()), types.Float(-math.NaN()), true},
		{types.Float(1), types.Float(2), false},
		{list(types.Int(1)), list(types.Int(1)), true},
		{list(types.Int(1)), list(types.Int(2)), false},
		{types.Str(""), types.NullOf(types.Varchar), false},
	} {
		if same := string(appendKey(nil, of.a)) == string(appendKey(nil, of.b)); same != of.same {
			t.Errorf("%v and %v are the same: %v", of.a, of.b, same)
		}
	}
}

// An overflow names what the user wrote.
func TestOverflowOfSums(t *testing.T) {
	cols := []wire.Column{{Name: "pane", Type: types.Timestamp}, {Name: "lo", Type: types.Bigint}, {Name: "hi", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}
	a, b := newScripted("a", cols...), newScripted("b", cols...)
	for _, h := range []*scripted{a, b} {
		h.send(h.rows([]int64{0, math.MaxInt64, 0, 1}), flush)
		h.end()
	}
	r := results(t, sessionOf(a, b), "SELECT SUM(arg0) AS s FROM function_start")
	if _, err := r.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "SUM(arg0) does not fit") {
		t.Errorf("it is %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
