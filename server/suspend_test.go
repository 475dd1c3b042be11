package server_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// stepped is a program that goes on by a step for each line of its input, and says
// when it has made one.
type stepped struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// steps starts a program of server/testdata/entities, which has said "ready".
func steps(t testing.TB, source string, args ...string) *stepped {
	t.Helper()
	return stepsOf(t, testenv.CompileC(t, "testdata/entities/"+source, "-O1", "-pthread", "-lstdc++"), args...)
}

func stepsOf(t testing.TB, path string, args ...string) *stepped {
	t.Helper()
	s := &stepped{t: t, cmd: exec.Command(path, args...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.says("ready")
	return s
}

func (s *stepped) pid() int { return s.cmd.Process.Pid }

// next has it make a step, and waits until it has.
func (s *stepped) next(says string) {
	s.t.Helper()
	s.begin()
	s.says(says)
}

func (s *stepped) begin() {
	s.t.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stepped) says(what string) {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != what {
		s.t.Fatalf("it says %q, %v; want %q", line, err, what)
	}
}

// rowsUntil reads rows until there are n of them, or the result ends.
func rowsUntil(t testing.TB, r wire.Result, n int) (rows [][]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for len(rows) < n {
		ev, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("%d rows, want %d: %v", len(rows), n, err)
		}
		if ev.Kind != wire.Rows {
			continue
		}
		for i := range ev.Batch.Len() {
			row := make([]string, len(ev.Batch.Cols))
			for c := range ev.Batch.Cols {
				row[c] = cell(ev.Batch.Cols[c].Value(ev.Batch.Row(i)))
			}
			rows = append(rows, row)
		}
		ev.Batch.Release()
	}
	return rows
}

// TestSuspend suspends and resumes reporting while a query runs: of what happens
// meanwhile nothing is told, and nothing of it is lost track of.
func TestSuspend(t *testing.T) {
	testenv.NeedUprobes(t)
	p := steps(t, "reuse.cc")
	s := newSession(t, wire.Options{PID: p.pid()})
	plain := start(t, s, "SELECT function_name, receiver FROM function_start WHERE function_name LIKE '%::pay'")
	total := start(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name LIKE '%::pay'")
	windows := start(t, s, "SELECT COUNT(*) FROM TUMBLE(function_start, 1h) WHERE function_name LIKE '%::pay' GROUP BY window_start")
	tracked := start(t, s, "SELECT event, name, entity_id, other_id, catch_up FROM CONSISTENT((SELECT * FROM entity_events WHERE name LIKE '%::pay'))")
	p.next("paid")
	rowsBefore := rowsUntil(t, plain, 3)
	trackedBefore := rowsUntil(t, tracked, 10)
	if got := message(t, s, "SUSPEND"); got != "reporting suspended" {
		t.Errorf("%q", got)
	}
	p.next("replaced")
	testenv.Until(t, "the suspended call has come", func() bool { return acquired(t, s, "SELECT function_name, receiver%") >= 4 })
	message(t, s, "RESUME")
	p.next("paid again")
	rowsAfter := rowsUntil(t, plain, 5)
	for _, row := range rowsAfter {
		if row[0] != "Ledger::pay" || row[1] != rowsBefore[0][1] {
			t.Errorf("%v; the second account is where the first one was, at %s", row, rowsBefore[0][1])
		}
	}
	plain.Stop()
	if a := read(t, plain); len(a.rows) > 0 {
		t.Errorf("%v comes, too", a.rows)
	}
	total.Stop()
	if a := read(t, total); number(t, a, 0, 0) != 8 {
		t.Errorf("%v calls, want 8", a.rows)
	}
	windows.Stop()
	all := 0 // of one hour, or of two
	for a, i := read(t, windows), 0; i < len(a.rows); i++ {
		all += int(number(t, a, i, 0))
	}
	if all != 8 {
		t.Errorf("%d calls in windows, want 8", all)
	}
	tracked.Stop()
	after := read(t, tracked)
	checkReplaced(t, append(trackedBefore, after.rows...))
}

// checkReplaced holds rows of event, name, entity_id, other_id, catch_up to what
// became of the accounts: the costs of each are its own.
func checkReplaced(t *testing.T, rows [][]string) {
	t.Helper()
	lives := map[string]string{}
	paid := map[string]int{}
	for _, row := range rows {
		event, entity, other := row[0], row[2], row[3]
		switch {
		case event == "CREATE" && strings.Contains(entity, ":0x"):
			lives[entity] = "lives"
		case event == "RECLAIM" && strings.Contains(entity, ":0x"):
			if lives[entity] != "lives" {
				t.Errorf("%v: it is not there", row)
			}
			lives[entity] = "gone"
		case event == "ENTER" && strings.HasSuffix(row[1], "::pay"):
			if lives[other] != "lives" {
				t.Errorf("%v: object %s is %s", row, other, lives[other])
			}
			paid[other]++
		}
	}
	if len(paid) != 2 {
		t.Fatalf("paid: %v; want two accounts\n%s", paid, join(rows))
	}
	var counts []int
	for id, n := range paid {
		counts = append(counts, n)
		if n == 3 && lives[id] != "gone" {
			t.Errorf("the first account, %s, is %s", id, lives[id])
		}
	}
	slices.Sort(counts)
	if counts[0] != 3 || counts[1] < 5 || counts[1] > 6 { // one of six was made while nothing was reported
		t.Errorf("paid: %v", paid)
	}
}

// acquired is how many rows a query has taken from its sources, until now.
func acquired(t *testing.T, s wire.Session, statement string) int64 {
	t.Helper()
	return number(t, ask(t, s, "SELECT acquired FROM sys.queries WHERE statement LIKE '"+strings.ReplaceAll(statement, "'", "''")+"'"), 0, 0)
}

func join(rows [][]string) string {
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(strings.Join(row, "\t") + "\n")
	}
	return b.String()
}
