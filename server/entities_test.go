package server_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestTypeBeforeUse: what a class does before main begins comes behind its load, for
// which it must have been created, as its base.
func TestTypeBeforeUse(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileC(t, "testdata/entities/init.cc", "-O1", "-lstdc++")
	s := newSession(t, wire.Options{Command: []string{path}})
	a := read(t, start(t, s, "SELECT event, name, type_name, entity_id, other_id, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE name = 'Registry::add' OR name = 'Registry::count'))"))
	complete(t, a)
	at := func(event, name string) int {
		return slices.IndexFunc(a.rows, func(row []string) bool { return row[0] == event && row[1] == name })
	}
	order := []int{at("CREATE", "Base"), at("LOAD", "Registry"), at("ENTER", "Registry::add"), at("LEAVE", "Registry::add"), at("ENTER", "Registry::count")}
	if !slices.IsSorted(order) || order[0] < 0 || at("CREATE", "Registry") > order[1] {
		t.Fatalf("%v\n%s", order, join(a.rows))
	}
	if add := a.rows[order[2]]; add[2] != "Registry" || !strings.Contains(add[4], ":0x") || add[5] != "false" {
		t.Errorf("%v", add)
	}
	// The constructor that calls it is reported before, since it is around it.
	if i := at("ENTER", "Registry::Registry"); i < order[1] || i > order[2] {
		t.Errorf("the constructor is row %d\n%s", i, join(a.rows))
	}
}

// TestShortLives: of processes that start later, and are gone before anybody can look
// at them, it is known what they are, and what their types are.
func TestShortLives(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileC(t, "testdata/entities/init.cc", "-O1", "-lstdc++")
	s := newSession(t, wire.Options{Exe: path})
	r := start(t, s, "SELECT pid, event, category, name, type_name, exe, process FROM CONSISTENT((SELECT * FROM entity_events WHERE name LIKE 'Registry::%'))")
	for range 3 {
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
	r.Stop()
	a := read(t, r)
	complete(t, a)
	lives, entered := map[string]bool{}, map[string]int{}
	for _, row := range a.rows {
		switch {
		case row[1] == "LOAD" && row[3] == "Registry":
			lives["Registry"] = true
		case row[1] == "RECLAIM" && row[2] == "TYPE":
			lives[row[3]] = false
		case row[1] == "ENTER" && row[4] == "Registry":
			entered[row[0]]++
			if !lives["Registry"] || row[5] != path || row[6] != filepath.Base(path)[:min(15, len(filepath.Base(path)))] {
				t.Errorf("%v; Registry lives: %t", row, lives["Registry"])
			}
		}
	}
	if len(entered) != 3 {
		t.Errorf("calls of %v\n%s", entered, join(a.rows))
	}
}

// TestLoadedTypes: types come with a library and go with it; when it is loaded again
// they are others.
func TestLoadedTypes(t *testing.T) {
	testenv.NeedUprobes(t)
	lib := testenv.CompileC(t, "testdata/entities/plugin.cc", "-O1", "-shared", "-fPIC", "-lstdc++")
	p := stepsOf(t, testenv.CompileC(t, "testdata/entities/loads.cc", "-O1", "-lstdc++", "-ldl"), lib)
	s := newSession(t, wire.Options{PID: p.pid()})
	r := start(t, s, "SELECT event, entity_id, parent_id FROM entity_events WHERE category = 'TYPE' AND name = 'Plugged'")
	p.next("loaded")
	got := rowsUntil(t, r, 2)
	p.next("unloaded")
	got = append(got, rowsUntil(t, r, 1)...)
	p.next("loaded")
	got = append(got, rowsUntil(t, r, 2)...)
	want := "CREATE\tPlugged\tNULL\nLOAD\tPlugged\tBase\nRECLAIM\tPlugged\tNULL\nCREATE\tPlugged#2\tNULL\nLOAD\tPlugged#2\tBase#2\n"
	if join(got) != want {
		t.Errorf("got\n%swant\n%s", join(got), want)
	}
}

// TestFreedObjects: objects that have no destructor end with their memory.
func TestFreedObjects(t *testing.T) {
	testenv.NeedUprobes(t)
	p := steps(t, "plain.cc")
	s := newSession(t, wire.Options{PID: p.pid()})
	r := start(t, s, "SELECT event, type_name FROM entity_events WHERE category = 'OBJECT' AND type_name = 'Point'")
	p.next("made")
	p.next("made")
	if got, want := join(rowsUntil(t, r, 4)), strings.Repeat("CREATE\tPoint\nRECLAIM\tPoint\n", 2); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestDeadlock: of threads that wait for each other it is told for whom, also where
// only some of it is selected; of the others no wait.
func TestDeadlock(t *testing.T) {
	testenv.NeedUprobes(t)
	p := steps(t, "deadlock.cc")
	s := newSession(t, wire.Options{PID: p.pid()})
	all := start(t, s, `SELECT event, thread_name, entity_id, other_id, thread_id FROM activity_events WHERE event = 'BEGIN_WAIT' AND name = 'mutex'`)
	one := start(t, s, `SELECT event, thread_name, entity_id, other_id, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE category = 'THREAD' AND event = 'RECLAIM' UNION ALL SELECT * FROM activity_events WHERE event = 'BEGIN_WAIT' AND thread_name = 'left'))`)
	graph := start(t, s, `SELECT WAIT_GRAPH(event, entity_id, thread_id, thread_name) FROM CONSISTENT(activity_events)`)
	p.begin()
	waits := map[string][]string{}
	for _, row := range rowsUntil(t, all, 3) {
		waits[row[1]] = row
	}
	left, right, third := waits["left"], waits["right"], waits["third"]
	if left == nil || right == nil || third == nil {
		t.Fatalf("waits: %v", waits)
	}
	if left[3] != right[4] || right[3] != left[4] || third[3] != left[4] {
		t.Errorf("left, right and third wait for %s, %s and %s; they are %s, %s and %s", left[3], right[3], third[3], left[4], right[4], third[4])
	}
	graph.Stop()
	drawn := read(t, graph)
	if len(drawn.rows) != 1 || !strings.Contains(drawn.rows[0][0], "deadlock: left "+left[4]+", right "+right[4]) && !strings.Contains(drawn.rows[0][0], "deadlock: right "+right[4]+", left "+left[4]) {
		t.Errorf("%v", drawn.rows)
	}
	if strings.Count(drawn.rows[0][0], "deadlock") != 1 || strings.Contains(drawn.rows[0][0], "alone") {
		t.Errorf("%s", drawn.rows[0][0])
	}
	// What left waits for and holds, and who has it, is known to who asked for its
	// waits alone.
	var told []string
	for told == nil || !slices.ContainsFunc(told, func(l string) bool { return strings.HasPrefix(l, "BEGIN_WAIT left") }) {
		for _, row := range rowsUntil(t, one, 1) {
			told = append(told, strings.Join(row, " "))
		}
	}
	last := told[slices.IndexFunc(told, func(l string) bool { return strings.HasPrefix(l, "BEGIN_WAIT left") })]
	if last != "BEGIN_WAIT left "+left[2]+" "+left[3]+" false" {
		t.Errorf("%s\nof %v", last, left)
	}
	if !slices.ContainsFunc(told, func(l string) bool { return strings.HasPrefix(l, "CREATE ") && strings.Contains(l, right[4]) }) {
		t.Errorf("whom it waits for was not told of before:\n%s", strings.Join(told, "\n"))
	}
}

// java compiles and starts the program of server/testdata/entities/app.
func java(t *testing.T) *stepped {
	t.Helper()
	p, _ := javaOf(t, "Shop")
	return p
}

// javaOf is java of one of its classes; dir is where they are.
func javaOf(t *testing.T, class string) (p *stepped, dir string) {
	t.Helper()
	dir = testenv.CompileJava(t, "testdata/entities/app/"+class+".java")
	return stepsOf(t, testenv.NeedProgram(t, "java"), "-Xmx64m", "-XX:+ExtendedDTraceProbes", "-cp", dir, "app."+class, dir), dir
}

// TestJava: methods of Java come behind their classes and within their callers,
// threads have their names, and who waits for a monitor is told.
func TestJava(t *testing.T) {
	testenv.NeedUprobes(t)
	p := java(t)
	s := newSession(t, wire.Options{PID: p.pid()})
	costs := start(t, s, "SELECT event, category, name, type_name, entity_id, parent_id, thread_name FROM CONSISTENT((SELECT * FROM entity_events WHERE name LIKE '%tax'))")
	waits := start(t, s, "SELECT event, name, thread_name FROM activity_events WHERE thread_name LIKE 'clerk%'")
	p.next("sold")
	costs.Stop()
	waits.Stop()
	a, w := read(t, costs), read(t, waits)
	complete(t, a)
	names, loaded, taxed := map[string]string{}, map[string]bool{}, 0
	for _, row := range a.rows {
		switch {
		case row[0] == "LOAD":
			loaded[row[2]] = true
		case row[0] == "ENTER":
			names[row[4]] = row[2]
			if !loaded[row[3]] {
				t.Errorf("%v: its class is not loaded", row)
			}
			if strings.HasSuffix(row[2], "tax") {
				if taxed++; !strings.HasSuffix(names[row[5]], "cost") || !strings.HasPrefix(row[6], "clerk") {
					t.Errorf("%v is within %q", row, names[row[5]])
				}
			}
		}
	}
	if taxed != 60 {
		t.Errorf("%d calls of tax, want 60", taxed)
	}
	began, ended := 0, 0
	for _, row := range w.rows {
		if row[1] == "monitor" && row[0] == "BEGIN_WAIT" {
			began++
		} else if row[1] == "monitor" && row[0] == "END_WAIT" {
			ended++
		}
	}
	if began == 0 || began != ended {
		t.Errorf("%d waits for monitors begin, %d end", began, ended)
	}
}

// TestJavaDeadlock: of threads of Java that wait for each other's monitors it is told
// who has them; of those that only take turns no deadlock is, whatever is selected.
func TestJavaDeadlock(t *testing.T) {
	testenv.NeedUprobes(t)
	p, _ := javaOf(t, "Locks")
	s := newSession(t, wire.Options{PID: p.pid()})
	graphs := map[string]wire.Result{}
	for of, where := range map[string]string{"all": "TRUE", "left": "thread_name = 'left'", "waits": "event IN ('BEGIN_WAIT', 'END_WAIT')"} {
		graphs[of] = start(t, s, "SELECT WAIT_GRAPH(event, entity_id, thread_id, thread_name) FROM CONSISTENT((SELECT * FROM activity_events WHERE "+where+")) EMIT EVERY 50ms")
	}
	owners := start(t, s, "SELECT thread_name FROM activity_events WHERE event = 'ACQUIRE' AND name = 'monitor'")
	rowsUntil(t, owners, 3) // of those that take turns
	for range 10 {
		if g := rowsUntil(t, graphs["all"], 1)[0][0]; strings.Contains(g, "deadlock") {
			t.Fatalf("they take turns: %s", g)
		}
	}
	p.next("dead")
	for of, r := range graphs {
		last, seen := "", 0
		for seen < 20 {
			last = rowsUntil(t, r, 1)[0][0]
			if of != "all" {
				if seen++; strings.Contains(last, "deadlock") && of == "left" {
					t.Fatalf("of the waits of one thread: %s", last)
				}
				continue
			}
			if strings.Contains(last, "deadlock: ") {
				if !strings.Contains(last, "third") {
					continue // it comes to wait for them
				}
				break
			}
		}
		if of == "all" {
			i := strings.Index(last, "deadlock: ")
			if dead := last[i:]; strings.Count(last, "deadlock") != 1 || !strings.Contains(dead, "left ") || !strings.Contains(dead, "right ") || strings.Contains(dead, "third") {
				t.Errorf("%s", last)
			}
		}
	}
}

// TestJavaUnloading: a class of Java that is unloaded ends; when it is loaded again it
// is another one.
func TestJavaUnloading(t *testing.T) {
	testenv.NeedUprobes(t)
	p, _ := javaOf(t, "Loads")
	s := newSession(t, wire.Options{PID: p.pid()})
	r := start(t, s, "SELECT event, entity_id FROM entity_events WHERE category = 'TYPE' AND name = 'app.Loads$Plugin'")
	p.next("loaded")
	got := rowsUntil(t, r, 2)
	p.next("gone")
	for p.next("loaded"); len(got) < 5; p.next("loaded") {
		// What nobody refers to is unloaded by the next collection, or the one behind it.
		p.next("gone")
		if len(got) == 2 {
			got = append(got, rowsUntil(t, r, 3)...)
		}
	}
	got = got[:5]
	want := "CREATE\tapp.Loads$Plugin\nLOAD\tapp.Loads$Plugin\nRECLAIM\tapp.Loads$Plugin\nCREATE\tapp.Loads$Plugin#2\nLOAD\tapp.Loads$Plugin#2\n"
	if join(got) != want {
		t.Errorf("got\n%swant\n%s", join(got), want)
	}
}
