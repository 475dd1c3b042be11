package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// heard collects what a session's triggers say.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, text)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

// run runs a statement to its end.
func run(t testing.TB, s wire.Session, statement string) reply {
	t.Helper()
	return read(t, start(t, s, statement))
}

// refusal is the error of a statement that must be refused.
func refusal(t testing.TB, s wire.Session, statement string) string {
	t.Helper()
	r, err := s.Execute(context.Background(), statement)
	if err == nil {
		r.Close()
		t.Fatalf("%s was not refused", statement)
	}
	return err.Error()
}

// column is one column of SHOW TRIGGERS for a trigger.
func triggerColumn(t testing.TB, s wire.Session, trigger, column string) string {
	t.Helper()
	a := run(t, s, "SELECT "+column+" FROM sys.triggers WHERE trigger = '"+trigger+"'")
	if len(a.rows) != 1 {
		t.Fatalf("there are %d triggers %s", len(a.rows), trigger)
	}
	return a.rows[0][0]
}

// triggered reads the rows of a session's triggers until all have ended.
func triggered(t testing.TB, s wire.Session) reply {
	t.Helper()
	return read(t, s.Triggered(false))
}

// actions counts rows by action.
func actions(rows [][]string) map[string]int {
	n := map[string]int{}
	for _, r := range rows {
		n[r[3]]++
	}
	return n
}

// A file is a stream with an end, and so the trigger over it ends.
func TestTriggerOverFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.csv")
	write(t, path, "timestamp,name,ms\n2026-01-01T00:00:00Z,a,1\n2026-01-01T00:00:01Z,a,7\n2026-01-01T00:00:02Z,b,9\n2026-01-01T00:00:03Z,a,8\n")
	var h heard
	s := newSession(t, wire.Options{Notify: h.add})
	r := run(t, s, "CREATE TRIGGER slow ON file('"+path+"') WHEN name = 'a' AND ms > 5 BEGIN NOTIFY 'slow call' END")
	if len(r.rows) != 0 {
		t.Errorf("CREATE TRIGGER gave rows %v", r.rows)
	}
	a := triggered(t, s)
	if len(a.rows) != 2 {
		t.Fatalf("rows %v", a.rows)
	}
	want := [][]string{
		{"", "slow", "1", "NOTIFY 'slow call'", `{"timestamp":"2026-01-01T00:00:01.000000000Z","name":"a","ms":7}`},
		{"", "slow", "2", "NOTIFY 'slow call'", `{"timestamp":"2026-01-01T00:00:03.000000000Z","name":"a","ms":8}`},
	}
	for i, row := range want {
		if got := strings.Join(a.rows[i][1:], " "); got != strings.Join(row[1:], " ") {
			t.Errorf("row %d is %v, want %v", i, a.rows[i], row)
		}
	}
	if got := h.all(); len(got) != 2 || got[0] != "slow: slow call" {
		t.Errorf("notified of %q", got)
	}
	if n, state := triggerColumn(t, s, "slow", "activations"), triggerColumn(t, s, "slow", "state"); n != "2" || state != "ended" {
		t.Errorf("SHOW TRIGGERS says %s activations, %s", n, state)
	}
}

// SAMPLE is undone by the first tuple that fails the condition, and stays on for
// ever with ONCE. A trigger's stream says so, since it is one.
func TestTriggerUndoes(t *testing.T) {
	testenv.Long(t)
	for mode, stays := range map[string]bool{"CONTINUOUS": false, "ONCE": true} {
		testenv.Once(t, func() error { return undoes(t, mode, stays) })
	}
}

// undoes says in what the time is wrong for which a trigger samples.
func undoes(t *testing.T, mode string, stays bool) (wrong error) {
	t.Helper()
	s := newSession(t, wire.Options{})
	// The source of tuples is a trigger's stream: a row each time that the
	// clock is right, so that tests need no target.
	run(t, s, "CREATE TRIGGER clock ON SAMPLE(memory_usage, 300ms) WHEN TRUE BEGIN NOTIFY 'tick' END")
	run(t, s, "CREATE "+mode+" TRIGGER odd ON clock WHEN activation % 3 = 1 BEGIN SAMPLE(cpu_usage, 10ms) END")
	want := map[bool]string{true: "acting", false: "waiting"}[stays]
	testenv.Until(t, "four ticks", func() bool {
		return number(t, run(t, s, "SELECT activations FROM sys.triggers WHERE trigger = 'clock'"), 0, 0) >= 4
	})
	testenv.Until(t, "after tuples that fail it, it is "+want, func() bool { return triggerColumn(t, s, "odd", "state") == want })
	run(t, s, "DROP TRIGGER odd")
	run(t, s, "DROP TRIGGER clock")
	a := triggered(t, s)
	if actions(a.rows)["SAMPLE(cpu_usage, 10ms)"] == 0 {
		return fmt.Errorf("%s: there are no samples in %v", mode, actions(a.rows))
	}
	// From the first tick to the second, or to the end.
	var first, last, second int64
	for i, r := range a.rows {
		if r[1] == "odd" && r[2] == "1" {
			last = number(t, a, i, 0)
			if first == 0 {
				first = last
			}
		}
		if r[1] == "clock" && r[2] == "2" {
			second = number(t, a, i, 0)
		}
	}
	if d := time.Duration(last - first); !stays && last > second+int64(150*time.Millisecond) || stays && d < 500*time.Millisecond {
		wrong = fmt.Errorf("%s: sampled for %v", mode, d)
	}
	if left := run(t, s, "SELECT * FROM sys.queries WHERE NOT statement LIKE 'SELECT%'"); len(left.rows) > 0 {
		t.Errorf("%s: still running: %v", mode, left.rows)
	}
	return wrong
}

// FOR bounds an acquisition, from the last activation on.
func TestTriggerFor(t *testing.T) {
	testenv.Once(t, func() error { return boundedByFor(t) })
}

func boundedByFor(t *testing.T) (wrong error) {
	t.Helper()
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER t ON (SELECT * FROM SAMPLE(memory_usage, 100ms) LIMIT 3) WHEN TRUE BEGIN SAMPLE(cpu_usage, 10ms) FOR 200ms; SELECT COUNT(*) AS n FROM SAMPLE(cpu_usage, 10ms) FOR 150ms END")
	began := time.Now()
	a := triggered(t, s)
	if d := time.Since(began); d > 3*time.Second {
		wrong = fmt.Errorf("it took %v to end", d)
	}
	// The source ends with its third tuple, which undoes what FOR would not have.
	if n := actions(a.rows)["SAMPLE(cpu_usage, 10ms) FOR 200ms"]; n < 2 || n > 60 {
		wrong = fmt.Errorf("%d samples", n)
	}
	var counts []string
	for _, r := range a.rows {
		if strings.HasPrefix(r[3], "SELECT") {
			counts = append(counts, r[4])
		}
	}
	if len(counts) == 0 || counts[0] == `{"n":0}` {
		wrong = fmt.Errorf("the query gave %q", counts)
	}
	if n := triggerColumn(t, s, "t", "skipped"); n == "0" {
		wrong = errors.New("an activation came while the query ran and was not counted as skipped")
	}
	return wrong
}

// STOP ends what a trigger, this one or another, acquires.
func TestTriggerStops(t *testing.T) {
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE ONCE TRIGGER starter ON SAMPLE(memory_usage, 50ms) WHEN TRUE BEGIN NOTIFY 'x' END")
	_ = refusal(t, s, "CREATE TRIGGER starter ON SAMPLE(memory_usage, 50ms) WHEN TRUE BEGIN NOTIFY 'x' END")
	run(t, s, "CREATE OR REPLACE ONCE TRIGGER starter ON (SELECT * FROM SAMPLE(memory_usage, 50ms) LIMIT 1) WHEN TRUE BEGIN SAMPLE(cpu_usage, 10ms) END")
	testenv.Until(t, "it acts", func() bool { return triggerColumn(t, s, "starter", "state") == "acting" })
	run(t, s, "CREATE TRIGGER off ON (SELECT * FROM SAMPLE(memory_usage, 50ms) LIMIT 1) WHEN TRUE BEGIN STOP cpu_usage END")
	a := triggered(t, s) // the end of both
	if actions(a.rows)["STOP cpu_usage"] != 1 {
		t.Errorf("rows %v", actions(a.rows))
	}
}

// INSERT adds to its file at each activation.
func TestTriggerInserts(t *testing.T) {
	testenv.Once(t, func() error {
		path := filepath.Join(t.TempDir(), "out.csv")
		s := newSession(t, wire.Options{})
		run(t, s, "CREATE TRIGGER t ON (SELECT * FROM SAMPLE(memory_usage, 200ms) LIMIT 2) WHEN TRUE BEGIN INSERT INTO file('"+path+"') SELECT n FROM series(2) END")
		a := triggered(t, s)
		if n := triggerColumn(t, s, "t", "skipped"); n != "0" {
			return errors.New("the second activation came while the first one wrote")
		}
		if len(a.rows) != 2 || a.rows[0][4] != `{"rows":2}` || a.rows[1][2] != "2" {
			t.Errorf("rows %v", a.rows)
		}
		if got := contents(t, path); got != "n\n0\n1\n0\n1\n" && got != "n\n1\n2\n1\n2\n" {
			t.Errorf("the file has %q", got)
		}
		return nil
	})
}

// A trigger that is refused leaves nothing behind, whatever part is wrong.
func TestTriggerRefused(t *testing.T) {
	s := newSession(t, wire.Options{})
	for statement, want := range map[string]string{
		"CREATE TRIGGER t ON SAMPLE(memory_usage, 1s) WHEN TRUE BEGIN SAMPLE(cpu_usage, 1s); SAMPLE(process_usage, 1s) END":              "process_usage needs a target process",
		"CREATE TRIGGER t ON SAMPLE(process_usage, 1s) WHEN pid = 999999999 BEGIN NOTIFY 'x' END":                                        "there is no process 999999999",
		"CREATE TRIGGER t ON SAMPLE(memory_usage, 1s) WHEN TRUE BEGIN SELECT * FROM SAMPLE(process_usage, 1s) WHERE pid = 999999999 END": "there is no process 999999999",
		"CREATE TRIGGER t ON file('nosuch.csv') WHEN TRUE BEGIN NOTIFY 'x' END":                                                          "nosuch.csv",
		"DROP TRIGGER t": "there is no trigger t",
	} {
		if got := refusal(t, s, statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s", statement, got)
		}
	}
	if a := run(t, s, "SHOW TRIGGERS"); len(a.rows) != 0 {
		t.Errorf("triggers are left: %v", a.rows)
	}
	if a := run(t, s, "SELECT * FROM sys.queries"); len(a.rows) != 1 {
		t.Errorf("queries are left: %v", a.rows)
	}
}

// A trigger lives in the engine: it goes on without the session that made it.
func TestTriggerOutlivesItsSession(t *testing.T) {
	a, b := twoSessions(t)
	run(t, a, "CREATE TRIGGER t ON SAMPLE(memory_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'x' END")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, b, "SELECT activation, row FROM t LIMIT 3")
	if got := read(t, r); len(got.rows) != 3 || !strings.Contains(got.rows[0][1], "percent_used") {
		t.Errorf("its stream gives %v", got.rows)
	}
	// A query over its stream ends with it.
	r = start(t, b, "SELECT COUNT(*) FROM t")
	run(t, b, "DROP TRIGGER t")
	if got := read(t, r); len(got.rows) != 1 {
		t.Errorf("a count over its stream gives %v", got.rows)
	}
}

func twoSessions(t *testing.T) (a, b wire.Session) {
	e, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var s [2]wire.Session
	for i := range s {
		if s[i], err = e.NewSession(context.Background(), wire.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s[1].Close() })
	return s[0], s[1]
}

// The creator's result can be waited for, stopped, and given up.
func TestTriggeredIsAResult(t *testing.T) {
	s := newSession(t, wire.Options{})
	if a := read(t, s.Triggered(false)); len(a.rows) != 0 {
		t.Errorf("without triggers there are rows %v", a.rows)
	}
	run(t, s, "CREATE TRIGGER t ON SAMPLE(memory_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'x' END")
	r := s.Triggered(false)
	testenv.Until(t, "rows", func() bool { return number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) >= 8 })
	r.Stop()
	if a := read(t, r); len(a.rows) < 5 || len(r.Columns()) != 5 || a.summary.Rows != uint64(len(a.rows)) {
		t.Errorf("%d rows, %d columns, summary %v", len(a.rows), len(r.Columns()), a.summary)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	r = s.Triggered(true)
	for {
		if _, err := r.Next(ctx); errors.Is(err, context.DeadlineExceeded) {
			break
		} else if errors.Is(err, io.EOF) {
			t.Fatal("it ended with the trigger there")
		}
	}
}

// What is aggregated over windows can activate, and a trigger's stream can be
// aggregated over windows.
func TestTriggerOverWindows(t *testing.T) {
	s := newSession(t, wire.Options{})
	run(t, s, "SET lateness = 50ms")
	run(t, s, "CREATE TRIGGER many ON (SELECT COUNT(*) AS n FROM TUMBLE(SAMPLE(memory_usage, 10ms), 100ms)) WHEN n > 2 BEGIN NOTIFY 'x' END")
	told := s.Triggered(false)
	testenv.Until(t, "a row", func() bool { return number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) > 0 })
	told.Stop()
	if a := read(t, told); len(a.rows) == 0 || !strings.HasPrefix(a.rows[0][4], `{"n":`) {
		t.Errorf("the trigger gave %v", a.rows)
	}
	r := start(t, s, "SELECT COUNT(*), MIN(activation) FROM TUMBLE(many, 300ms) LIMIT 1 FOR 1min")
	testenv.Until(t, "two windows", func() bool {
		return number(t, run(t, s, "SELECT rows FROM sys.queries WHERE statement LIKE 'SELECT COUNT%'"), 0, 0) >= 2
	})
	run(t, s, "DROP TRIGGER many")
	if a := read(t, r); len(a.rows) < 2 || number(t, a, 1, 0) < 1 || number(t, a, 1, 0) > 5 {
		t.Errorf("windows of the trigger's stream: %v", a.rows)
	}
}

// Who reads a trigger's stream by a query is not told of it beside.
func TestRowsReadByAQueryAreNotTriggered(t *testing.T) {
	testenv.Once(t, func() error { return notTwice(t) })
}

func notTwice(t *testing.T) error {
	t.Helper()
	s := newSession(t, wire.Options{})
	run(t, s, "CREATE TRIGGER t ON SAMPLE(memory_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'x' END")
	if a := run(t, s, "SELECT * FROM t LIMIT 10"); len(a.rows) != 10 {
		t.Fatalf("%d rows", len(a.rows))
	}
	told := func() int64 { return number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) }
	after := told() + 3
	testenv.Until(t, "rows after it", func() bool { return told() >= after })
	run(t, s, "DROP TRIGGER t")
	// Those before and after the query: ten are missing.
	a := triggered(t, s)
	before, gap := int64(0), int64(0)
	for i := range a.rows {
		n := number(t, a, i, 2)
		gap, before = max(gap, n-before-1), n
	}
	if gap < 9 || gap > 15 {
		return fmt.Errorf("%d rows are missing of those that were told: %v", gap, a.rows)
	}
	return nil
}
