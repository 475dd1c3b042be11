package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/probes/testenv"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// loopSession has two files: in.csv, and link.csv, which is in.csv.
func loopSession(t *testing.T) (s *session, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte("timestamp,n\n2026-01-01T00:00:00Z,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("in.csv", filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{ModelDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	ws, err := e.NewSession(context.Background(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return ws.(*session), dir
}

func parsed(t *testing.T, text string) *parser.CreateTrigger {
	t.Helper()
	st, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return st.(*parser.CreateTrigger)
}

// A file is one file whatever it is called; and calls of this process are what an
// activation makes.
func TestLoopsAreRefused(t *testing.T) {
	s, dir := loopSession(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint("pid = ", os.Getpid())
	for text, want := range map[string]string{
		"ON file('" + dir + "/in.csv') WHEN TRUE BEGIN INSERT INTO file('" + dir + "/link.csv') SELECT n FROM series(1) END":      "t would feed itself: it reads a file that it writes",
		"ON function_start WHEN function_name LIKE 'runtime.%' AND " + pid + " BEGIN NOTIFY 'x' END":                              "t would feed itself: it observes calls in the process that runs it",
		"ON function_start WHEN function_name LIKE 'runtime.%' AND exe = '" + self + "' BEGIN NOTIFY 'x' END":                     "t would feed itself: it observes calls in the process that runs it",
		"ON function_start WHEN function_name = 'f' AND process = '" + strings.TrimSpace(string(comm)) + "' BEGIN NOTIFY 'x' END": "t would feed itself: it observes calls in the process that runs it",
		"ON (SELECT COUNT(*) AS n FROM TUMBLE(function_start, 1s) WHERE " + pid + ") WHEN n > 1 BEGIN NOTIFY 'x' END":             "t would feed itself: it observes calls in the process that runs it",
	} {
		text = "CREATE TRIGGER t " + text
		if _, err := s.Execute(t.Context(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if all := s.e.triggers.List(); len(all) > 0 {
		t.Errorf("%d triggers are left", len(all))
	}
}

// Two triggers that are made at the same time may each be sound when it is planned,
// and feed each other.
func TestLoopOfTwoAtOnce(t *testing.T) {
	s, dir := loopSession(t)
	other := filepath.Join(dir, "other.csv")
	if err := os.WriteFile(other, []byte("n\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var both []*trigger.Trigger
	for _, text := range []string{
		"CREATE TRIGGER a ON file('" + dir + "/in.csv') WHEN TRUE BEGIN INSERT INTO file('" + other + "') SELECT n FROM series(1) END",
		"CREATE TRIGGER b ON file('" + other + "') WHEN TRUE BEGIN INSERT INTO file('" + dir + "/in.csv') SELECT n FROM series(1) END",
	} {
		p, err := planner.PlanTrigger(parsed(t, text), text, s.env())
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, &trigger.Trigger{Plan: p})
	}
	if _, err := s.e.triggers.Enter(both[0], false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.e.triggers.Enter(both[1], false); err == nil || !strings.Contains(err.Error(), "b would feed itself through a") {
		t.Errorf("the second is not refused: %v", err)
	}
	// Of another user's trigger the name is not said.
	others := &trigger.Trigger{Plan: both[1].Plan, Owner: "bob"}
	if _, err := s.e.triggers.Enter(others, false); err == nil || !strings.Contains(err.Error(), "b would feed itself through a trigger of another user") {
		t.Errorf("the second, of another user: %v", err)
	}
	// What is being replaced may come back: until then nothing may feed it.
	text := "CREATE OR REPLACE TRIGGER a ON series(1) WHEN TRUE BEGIN NOTIFY 'x' END"
	p, err := planner.PlanTrigger(parsed(t, text), text, s.env())
	if err != nil {
		t.Fatal(err)
	}
	next := &trigger.Trigger{Plan: p}
	if _, err := s.e.triggers.Enter(next, true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.e.triggers.Enter(both[1], false); err == nil {
		t.Error("what would feed the one before is not refused while that may come back")
	}
	s.e.triggers.Settle(next)
	if _, err := s.e.triggers.Enter(both[1], false); err != nil {
		t.Errorf("refused for what is gone: %v", err)
	}
	s.e.triggers.Leave(both[1], nil)
	s.e.triggers.Leave(next, nil)
}

// A condition on what activations change is activated once for each row of a sample,
// and no more.
func TestLoopThroughSysIsBounded(t *testing.T) {
	s, _ := loopSession(t)
	ctx, began := t.Context(), time.Now()
	for _, text := range []string{
		"CREATE TRIGGER t ON SAMPLE(sys.triggers, 50ms) WHEN activations >= 0 BEGIN SELECT n FROM series(3); NOTIFY 'x' END",
		"CREATE TRIGGER q ON SAMPLE(sys.queries, 50ms) WHEN query_id > 0 BEGIN SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) FOR 1s END",
	} {
		if _, err := s.Execute(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(600 * time.Millisecond) // in which a loop without bounds would have grown
	// There are two triggers; and queries: two of triggers, and one of each action.
	for name, rows := range map[string]int64{"t": 2, "q": 4} {
		op := s.e.triggers.Get(name).Operator
		testenv.Until(t, name+" is activated", func() bool { return op.Activations() > 0 })
		n := op.Activations()
		samples := int64(time.Since(began)/(50*time.Millisecond)) + 2
		if n == 0 || n > samples*rows {
			t.Errorf("%s was activated %d times in %d samples", name, n, samples)
		}
	}
}
