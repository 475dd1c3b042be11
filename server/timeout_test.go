package server_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// timed runs a statement with a timeout, which becomes longer until the query was armed in that
// time and check returns nil.
func timed(t *testing.T, ws wire.Session, first time.Duration, statement string, check func(r wire.Result, timeout string) error) {
	t.Helper()
	timeout := time.Duration(0)
	testenv.Once(t, func() error {
		timeout += first
		text := plan.FormatDuration(int64(timeout))
		run(t, ws, "SET statement_timeout = "+text)
		r, err := ws.Execute(t.Context(), statement)
		if err != nil {
			if !strings.Contains(err.Error(), "was over before the query was armed") {
				t.Fatalf("%s: %v", statement, err)
			}
			return err
		}
		defer r.Close()
		return check(r, text)
	})
}

// A query that would go on ends with the rows it has, and says so.
func TestTimeoutEndsQueries(t *testing.T) {
	ws := newShop(t).session(nil)
	const note = "ended by statement_timeout (%s): these are the rows until then"
	for _, statement := range []string{
		"SELECT used FROM SAMPLE(memory_usage, 10ms)",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms)",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms) FOR 1h",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms) EMIT EVERY 20ms",
	} {
		began := time.Now()
		timed(t, ws, time.Second, statement, func(r wire.Result, timeout string) error {
			a := read(t, r)
			if len(a.summary.Notes) != 1 || a.summary.Notes[0] != fmt.Sprintf(note, timeout) {
				t.Errorf("%s: %d rows, footer %q", statement, len(a.rows), a.summary.Notes)
			}
			if len(a.rows) == 0 {
				return fmt.Errorf("%s: no rows", statement)
			}
			if !strings.Contains(statement, "COUNT") {
				return nil
			}
			n := number(t, a, len(a.rows)-1, 0)
			if most := 1 + int64(time.Since(began)/(10*time.Millisecond)); n < 0 || n > most {
				t.Errorf("%s: %v, want at most %d", statement, a.rows, most)
			}
			if n == 0 {
				return fmt.Errorf("%s: %v", statement, a.rows)
			}
			return nil
		})
	}
	timed(t, ws, time.Second, "EXPLAIN ANALYZE SELECT used FROM SAMPLE(memory_usage, 10ms)", func(r wire.Result, timeout string) error {
		if a := read(t, r); !strings.Contains(fmt.Sprint(a.rows), fmt.Sprintf(note, timeout)) {
			t.Errorf("%v", a.rows)
		}
		return nil
	})
	timed(t, ws, time.Second, "SELECT used FROM SAMPLE(memory_usage, 10ms) LIMIT 2", func(r wire.Result, _ string) error {
		if a := read(t, r); len(a.rows) != 2 || len(a.summary.Notes) > 0 {
			return fmt.Errorf("a query that ends before: %v, footer %q", a.rows, a.summary.Notes)
		}
		return nil
	})
	timed(t, ws, time.Second, "CREATE MODEL busy AS SELECT AUTOMATON(used > 0) FROM SAMPLE(memory_usage, 10ms)", func(r wire.Result, _ string) error {
		read(t, r)
		return nil
	})
	if rows := run(t, ws, "SHOW MODELS").rows; len(rows) != 1 || rows[0][0] != "busy" {
		t.Errorf("models: %v", rows)
	}
	run(t, ws, "SET statement_timeout = 0s")
	if a := run(t, ws, "SELECT used FROM SAMPLE(memory_usage, 10ms) LIMIT 40"); len(a.rows) != 40 || len(a.summary.Notes) > 0 {
		t.Errorf("without a timeout: %d rows, footer %q", len(a.rows), a.summary.Notes)
	}
}

// A part of a finite input would give a wrong result.
func TestTimeoutCancelsFiniteQueries(t *testing.T) {
	shop := newShop(t)
	ws, other := shop.session(nil), shop.session(nil)
	const want = "canceled by statement_timeout (%s): a part of the input would give a wrong result"
	timed(t, ws, 200*time.Millisecond, "SELECT COUNT(*) FROM series(1000000000000)", func(r wire.Result, timeout string) error {
		if got := readError(t, r); !strings.Contains(got, fmt.Sprintf(want, timeout)) {
			t.Errorf("%s", got)
		}
		return nil
	})
	// Also if nobody reads.
	timed(t, ws, 200*time.Millisecond, "SELECT n FROM series(1000000000000)", func(r wire.Result, timeout string) error {
		testenv.Until(t, "the query has ended", func() bool {
			rows := run(t, other, "SELECT state FROM sys.queries WHERE statement LIKE '%series%' AND statement NOT LIKE '%sys%'").rows
			return len(rows) == 0
		})
		if got := readError(t, r); !strings.Contains(got, fmt.Sprintf(want, timeout)) {
			t.Errorf("unread: %s", got)
		}
		return nil
	})
	run(t, ws, "SET statement_timeout = 1ns")
	if got := refusal(t, ws, "SELECT n FROM series(1)"); !strings.Contains(got, "statement_timeout (1ns) was over before the query was armed") {
		t.Errorf("%s", got)
	}
}

// A user's limit is the maximum and the default, also when it is changed.
func TestTimeoutOfAUser(t *testing.T) {
	g := reader("alice")
	g.Account = grant.NewAccount(grant.Limits{Timeout: time.Second})
	shop := newShop(t)
	ws, all := shop.session(g), shop.session(nil)
	shown := func() string { return run(t, ws, "SHOW SETTINGS LIKE 'statement_timeout'").rows[0][1] }
	if got := shown(); got != "1s" {
		t.Errorf("the default is %s", got)
	}
	testenv.Once(t, func() error {
		r, err := ws.Execute(t.Context(), "SELECT used FROM SAMPLE(memory_usage, 10ms)")
		if err != nil {
			return err // the time was over before the query was armed
		}
		defer r.Close()
		if a := read(t, r); len(a.summary.Notes) != 1 {
			t.Errorf("footer %q", a.summary.Notes)
		}
		return nil
	})
	for statement, want := range map[string]string{
		"SET statement_timeout = 2s": "statement_timeout lies between 1ns and 1s, your limit",
		"SET statement_timeout = 0s": "statement_timeout cannot be turned off: your limit is 1s",
	} {
		if got := refusal(t, ws, statement); !strings.Contains(got, want) || !strings.Contains(got, "\n"+strings.Repeat(" ", len("  SET statement_timeout = "))+"^") {
			t.Errorf("%s: %s", statement, got)
		}
	}
	run(t, ws, "SET statement_timeout = 200ms")
	if got := shown(); got != "200ms" {
		t.Errorf("it is %s", got)
	}
	// A trigger is no statement: it goes on, and so do the queries that it runs.
	run(t, ws, "CREATE TRIGGER ticks ON SAMPLE(memory_usage, 10ms) WHEN used > 0 BEGIN NOTIFY 'x' END")
	t.Cleanup(func() { run(t, all, "DROP TRIGGER alice.ticks") })
	g.Account.Limit(grant.Limits{Timeout: 100 * time.Millisecond})
	if got := shown(); got != "100ms" {
		t.Errorf("it is %s after the limit was lowered", got)
	}
	testenv.Until(t, "the trigger acts after more than the timeout", func() bool {
		rows := run(t, all, "SELECT activations > 50, state = 'waiting' FROM sys.triggers").rows
		if rows[0][1] != "true" {
			t.Fatalf("%v", rows)
		}
		return rows[0][0] == "true"
	})
}

// readError reads a result that ends with an error, and returns that.
func readError(t *testing.T, r wire.Result) string {
	t.Helper()
	defer r.Close()
	for {
		ev, err := r.Next(t.Context())
		if err == io.EOF {
			t.Fatal("it ends without an error")
		}
		if err != nil {
			return err.Error()
		}
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
}
