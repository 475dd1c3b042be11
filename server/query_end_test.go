package server_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// A rate is of the time for which the query asked, or was there: neither what it took
// to arm it nor what it takes to end it is part of that.
func TestRateOfTheQuerysTime(t *testing.T) {
	s := newSession(t, wire.Options{})
	seconds := 0.25
	testenv.Once(t, func() error {
		seconds *= 2
		a := ask(t, s, fmt.Sprintf("SELECT COUNT(*), RATE(*) FROM SAMPLE(cpu_usage, 20ms) FOR %vms", 1000*seconds))
		n, err := strconv.ParseFloat(a.rows[0][0], 64)
		if n == 0 && err == nil {
			return errors.New("no rows")
		}
		if err != nil || a.rows[0][1] != strconv.FormatFloat(n/seconds, 'g', -1, 64) {
			t.Errorf("of %s rows in %v s the rate is %s: %v", a.rows[0][0], seconds, a.rows[0][1], err)
		}
		return nil
	})
}

// What cannot bring a row is not acquired, but results at intervals go on, empty ones,
// until the query ends.
func TestStandingQuery(t *testing.T) {
	s := newSession(t, wire.Options{})
	for query, panes := range map[string]int{
		"SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) WHERE false EMIT EVERY 100ms FOR 300ms":                                                      3,
		"SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) c WINDOW JOIN SAMPLE(memory_usage, 10ms) m WINDOW 1s WHERE 1 > 2 EMIT EVERY 100ms FOR 200ms": 2,
		"SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) WHERE false FOR 1h":                                                                          1,
		"SELECT COUNT(*) FROM series(5) WHERE false EMIT EVERY 1h":                                                                                 1,
	} {
		a := ask(t, s, query)
		if len(a.rows) != panes {
			t.Errorf("%s: %d results, want %d", query, len(a.rows), panes)
		}
		for _, row := range a.rows {
			if row[0] != "0" {
				t.Errorf("%s: %s", query, row)
			}
		}
	}
	r := start(t, s, "SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) WHERE false EMIT EVERY 20ms")
	if ev, err := r.Next(t.Context()); err != nil || ev.Kind != wire.Rows {
		t.Fatalf("%v: %v", ev.Kind, err)
	} else {
		ev.Batch.Release()
	}
	r.Stop()
	read(t, r)
}

// A query that observes something else while a command runs ends with the command, and
// one that begins later does not.
func TestQueryEndsWithTheCommand(t *testing.T) {
	for _, query := range []string{
		"SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms)",
		"SELECT COUNT(*) FROM SAMPLE(process_usage, 10ms) WHERE pid = " + strconv.Itoa(os.Getpid()),
		"SELECT COUNT(*) FROM SAMPLE(cpu_usage, 10ms) WHERE false EMIT EVERY 1h",
	} {
		s := newSession(t, wire.Options{Command: []string{"sleep", "0.1"}})
		began := time.Now()
		if a := ask(t, s, query); len(a.rows) != 1 {
			t.Errorf("%s: %v", query, a.rows)
		}
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("%s: over after %v, before the command", query, took)
		}
		if a := ask(t, s, "SELECT * FROM SAMPLE(cpu_usage, 10ms) LIMIT 3"); len(a.rows) != 3 {
			t.Errorf("of another query there are %d rows", len(a.rows))
		}
	}
}
