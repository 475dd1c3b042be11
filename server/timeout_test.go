package server_test

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// A query that would go on ends with the rows it has, and says so.
func TestTimeoutEndsQueries(t *testing.T) {
	ws := newShop(t).session(nil)
	run(t, ws, "SET statement_timeout = 1s")
	const note = "ended by statement_timeout (1s): these are the rows until then"
	for _, statement := range []string{
		"SELECT used FROM SAMPLE(memory_usage, 10ms)",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms)",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms) FOR 1h",
		"SELECT COUNT(*) FROM SAMPLE(memory_usage, 10ms) EMIT EVERY 20ms",
	} {
		began := time.Now()
		a := run(t, ws, statement)
		if len(a.rows) == 0 || len(a.summary.Notes) != 1 || a.summary.Notes[0] != note {
			t.Errorf("%s: %d rows, footer %q", statement, len(a.rows), a.summary.Notes)
		}
		if n, err := strconv.Atoi(a.rows[len(a.rows)-1][0]); strings.Contains(statement, "COUNT") && (err != nil || n < 1 || n > 1+int(time.Since(began)/(10*time.Millisecond))) {
			t.Errorf("%s: %v", statement, a.rows)
		}
	}
	if a := run(t, ws, "EXPLAIN ANALYZE SELECT used FROM SAMPLE(memory_usage, 10ms)"); !strings.Contains(fmt.Sprint(a.rows), note) {
		t.Errorf("%v", a.rows)
	}
	if a := run(t, ws, "SELECT used FROM SAMPLE(memory_usage, 10ms) LIMIT 2"); len(a.rows) != 2 || len(a.summary.Notes) > 0 {
		t.Errorf("a query that ends before: %v, footer %q", a.rows, a.summary.Notes)
	}
	run(t, ws, "CREATE MODEL busy AS SELECT AUTOMATON(used > 0) FROM SAMPLE(memory_usage, 10ms)")
	if rows := run(t, ws, "SHOW MODELS").rows; len(rows) != 1 || rows[0][0] != "busy" {
		t.Errorf("models: %v", rows)
	}
	run(t, ws, "SET statement_timeout = 0s")
	if a := run(t, ws, "SELECT used FROM SAMPLE(memory_usage, 10ms) FOR 400ms"); len(a.rows) == 0 || len(a.summary.Notes) > 0 {
		t.Errorf("without a timeout: %d rows, footer %q", len(a.rows), a.summary.Notes)
	}
}

// A part of a finite input would give a wrong result.
func TestTimeoutCancelsFiniteQueries(t *testing.T) {
	shop := newShop(t)
	ws, other := shop.session(nil), shop.session(nil)
	run(t, ws, "SET statement_timeout = 200ms")
	const want = "canceled by statement_timeout (200ms): a part of the input would give a wrong result"
	if got := readError(t, start(t, ws, "SELECT COUNT(*) FROM series(1000000000000)")); !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
	// Also if nobody reads.
	r := start(t, ws, "SELECT n FROM series(1000000000000)")
	testenv.Until(t, "the query has ended", func() bool {
		rows := run(t, other, "SELECT state FROM sys.queries WHERE statement LIKE '%series%' AND statement NOT LIKE '%sys%'").rows
		return len(rows) == 0
	})
	if got := readError(t, r); !strings.Contains(got, want) {
		t.Errorf("unread: %s", got)
	}
	run(t, ws, "SET statement_timeout = 1ns")
	if got := refusal(t, ws, "SELECT n FROM series(1)"); !strings.Contains(got, "statement_timeout (1ns) was over before the query was armed") {
		t.Errorf("%s", got)
	}
}

// A user's limit is the maximum and the default, also when it is changed.
func TestTimeoutOfAUser(t *testing.T) {
	g := reader("alice")
	g.Account = grant.NewAccount(grant.Limits{Timeout: 300 * time.Millisecond})
	shop := newShop(t)
	ws, all := shop.session(g), shop.session(nil)
	shown := func() string { return run(t, ws, "SHOW SETTINGS LIKE 'statement_timeout'").rows[0][1] }
	if got := shown(); got != "300ms" {
		t.Errorf("the default is %s", got)
	}
	if a := run(t, ws, "SELECT used FROM SAMPLE(memory_usage, 10ms)"); len(a.summary.Notes) != 1 {
		t.Errorf("footer %q", a.summary.Notes)
	}
	for statement, want := range map[string]string{
		"SET statement_timeout = 1s": "statement_timeout lies between 1ns and 300ms, your limit",
		"SET statement_timeout = 0s": "statement_timeout cannot be turned off: your limit is 300ms",
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
