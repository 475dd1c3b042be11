package server_test

import (
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestUnderWay: calls that are under way when a query begins are known from their
// threads' stacks: what is called lies within them, and they end.
func TestUnderWay(t *testing.T) {
	testenv.NeedUprobes(t)
	p := steps(t, "underway.cc")
	s := newSession(t, wire.Options{PID: p.pid()})
	// The worker waits in await, which job, run and work are around.
	leafs := start(t, s, "SELECT event, name, entity_id, parent_id, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE name LIKE 'leaf' AND thread_name = 'worker'))")
	all := start(t, s, "SELECT event, name, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE thread_name = 'worker' AND category = 'INVOCATION'))")
	for range 3 {
		p.next("done")
	}
	want := []string{"work", "Worker::run", "Worker::job", "leaf"}
	var rows [][]string
	for !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "ENTER" && r[1] == "leaf" }) {
		rows = append(rows, rowsUntil(t, leafs, 1)...)
	}
	names := map[string]string{}
	var around []string
	for _, r := range rows {
		if r[0] != "ENTER" {
			continue
		}
		names[r[2]] = r[1]
		if (r[4] == "true") != (r[1] != "leaf") {
			t.Errorf("%v", r)
		}
	}
	parents := map[string]string{}
	last := ""
	for _, r := range rows {
		if r[0] == "ENTER" {
			parents[r[2]], last = r[3], r[2]
		}
	}
	for id := last; id != "NULL" && names[id] != ""; id = parents[id] {
		around = append(around, names[id])
	}
	slices.Reverse(around)
	if got := strings.Join(around, " > "); !strings.HasSuffix(got, strings.Join(want, " > ")) {
		t.Errorf("leaf is within %s, want %v\n%s", got, want, join(rows))
	}
	// The wait that was under way is selected: it is reported, as what it is, and ends.
	rows = nil
	for !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "LEAVE" && r[1] == "Worker::job" }) {
		rows = append(rows, rowsUntil(t, all, 1)...)
	}
	at := func(event, name, caughtUp string) int {
		return slices.IndexFunc(rows, func(r []string) bool { return r[0] == event && r[1] == name && r[2] == caughtUp })
	}
	order := []int{at("ENTER", "Worker::job", "true"), at("ENTER", "await", "true"), at("LEAVE", "await", "false"), at("ENTER", "leaf", "false"), at("LEAVE", "Worker::job", "false")}
	if !slices.IsSorted(order) || order[0] < 0 {
		t.Errorf("%v\n%s", order, join(rows))
	}
}

// TestCallsOfASuspension: calls that begin while reporting is suspended, and are
// under way when it is resumed, are caught up with; those that ended are not.
func TestCallsOfASuspension(t *testing.T) {
	testenv.NeedUprobes(t)
	p := steps(t, "underway.cc")
	s := newSession(t, wire.Options{PID: p.pid()})
	r := start(t, s, "SELECT event, name, entity_id, parent_id, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE name IN ('leaf', 'Worker::job') AND thread_name = 'worker'))")
	awaits := start(t, newSession(t, wire.Options{PID: p.pid()}), "SELECT function_name FROM function_start WHERE function_name = 'await'")
	for range 3 {
		p.next("done")
	}
	var rows [][]string
	job, leafs := "", 0
	for leafs < 2 { // the first job's, which was under way, and that of the second
		for _, row := range rowsUntil(t, r, 1) {
			rows = append(rows, row)
			switch {
			case row[0] == "ENTER" && row[1] == "Worker::job":
				job = row[2]
			case row[0] == "LEAVE" && row[1] == "leaf":
				leafs++
			}
		}
	}
	message(t, s, "SUSPEND")
	p.next("done") // the second job ends, and the third one begins
	for !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "LEAVE" && r[2] == job }) {
		rows = append(rows, rowsUntil(t, r, 1)...)
	}
	rowsUntil(t, awaits, 4) // that of the first job, those of the second, and that of the third
	message(t, s, "RESUME")
	rows = nil
	p.next("done")
	for !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "LEAVE" && r[1] == "leaf" }) {
		rows = append(rows, rowsUntil(t, r, 1)...)
	}
	next := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "ENTER" && r[1] == "Worker::job" })
	leaf := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "ENTER" && r[1] == "leaf" })
	if next < 0 || leaf < next || rows[next][4] != "true" || rows[leaf][3] != rows[next][2] || rows[next][2] == job {
		t.Errorf("the job was %s\n%s", job, join(rows))
	}
}
