package server_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server"
	"endoscope/server/wire"
)

// newSession opens an engine with one session; both are closed by the test.
func newSession(t testing.TB, o wire.Options) wire.Session {
	t.Helper()
	return newSessionOf(t, server.Options{}, o)
}

func newSessionOf(t testing.TB, eo server.Options, o wire.Options) wire.Session {
	t.Helper()
	e, err := server.New(eo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	s, err := e.NewSession(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// start runs a statement: when it returns, the query is armed.
func start(t testing.TB, s wire.Session, statement string) wire.Result {
	t.Helper()
	r, err := s.Execute(context.Background(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// reply is everything that a result gave.
type reply struct {
	rows    [][]string
	notices []string
	flushes int
	last    [][]string // the rows of the last result
	summary wire.Summary
}

// read takes a result to its end.
func read(t testing.TB, r wire.Result) reply {
	t.Helper()
	return readUntil(t, r, func(reply) bool { return false })
}

// readUntil is read, and stops the query as soon as it has given enough.
func readUntil(t testing.TB, r wire.Result, enough func(reply) bool) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var a reply
	shown := 0 // rows before the result that is coming
	for {
		ev, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			a.summary = r.Summary()
			return a
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case wire.Notice:
			a.notices = append(a.notices, ev.Text)
		case wire.Flush:
			a.flushes++
			a.last, shown = a.rows[shown:], len(a.rows)
		case wire.Rows:
			for i := range ev.Batch.Len() {
				row := make([]string, len(ev.Batch.Cols))
				for c := range ev.Batch.Cols {
					row[c] = cell(ev.Batch.Cols[c].Value(ev.Batch.Row(i)))
				}
				a.rows = append(a.rows, row)
			}
			ev.Batch.Release()
			if enough(a) {
				r.Stop()
			}
		}
	}
}

// cell prints a value plainly: numbers as they are, durations in ns.
func cell(v types.Value) string {
	switch {
	case v.IsNull:
		return "NULL"
	case v.Type == types.Duration, v.Type == types.Bigint, v.Type == types.Timestamp:
		return strconv.FormatInt(v.I, 10)
	case v.Type == types.Varchar:
		return v.S
	}
	return plan.FormatValue(v)
}

// number asks for one number.
func number(t testing.TB, a reply, row, col int) int64 {
	t.Helper()
	if len(a.rows) <= row || len(a.rows[row]) <= col {
		t.Fatalf("no row %d, column %d in %v", row, col, a.rows)
	}
	n, err := strconv.ParseInt(a.rows[row][col], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// complete fails if anything was lost, except moments of a sampler, which a busy machine delays.
func complete(t testing.TB, a reply) {
	t.Helper()
	for _, l := range a.summary.Losses {
		if l.Cause != "sampler overrun" {
			t.Errorf("lost %d: %s", l.N, l.Cause)
		}
	}
}
