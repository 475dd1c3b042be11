package unharmed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/planner/types"
	"endoscope/server"
	"endoscope/server/wire"
)

// engine is shared by all tests, since reading the kernel's types is slow.
var engine = sync.OnceValues(func() (*server.Engine, error) { return server.New(server.Options{}) })

func TestMain(m *testing.M) {
	code := m.Run()
	if e, _ := engine(); e != nil {
		if err := e.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the engine:", err)
			code = 1
		}
	}
	if dir, _ := libraries(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// settings returns the settings that a program needs.
func (b *build) settings() settings {
	if b.returns == "" {
		return nil
	}
	return settings{"return_probes = " + b.returns}
}

// settings are the assignments of SET for a session.
type settings []string

// session opens a session that is closed with the test.
func session(t testing.TB, o wire.Options, set settings) wire.Session {
	t.Helper()
	e, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	return sessionOf(t, e, o, set)
}

func sessionOf(t testing.TB, e *server.Engine, o wire.Options, set settings) wire.Session {
	t.Helper()
	s, err := e.NewSession(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, st := range append(settings{"max_probes = 100000", "max_text_copy = 1GiB", "max_overhead = 0"}, set...) {
		r, err := s.Execute(context.Background(), "SET "+st)
		if err != nil {
			t.Fatalf("SET %s: %v", st, err)
		}
		r.Close()
	}
	return s
}

// everyCall returns the query of this package: all functions, their calls and mean
// durations. where begins with WHERE or is empty.
func everyCall(where string) string {
	return "SELECT function_name, COUNT(*), AVG(duration) FROM function_duration " + where + " GROUP BY function_name"
}

// answer is the result of a query.
type answer struct {
	rows    map[string]int64 // by function
	notices []string
	summary wire.Summary
}

// notRows returns the number of calls without a row according to the footer, although
// their functions were observed.
func (a *answer) notRows() (n int64) {
	for _, list := range [][]wire.Loss{a.summary.Losses, a.summary.Counts} {
		for _, l := range list {
			if l.Cause != "inherited" { // the parent's calls at a fork, which also return in the parent
				n += int64(l.N)
			}
		}
	}
	return n
}

// footer returns the causes of missing rows.
func (a *answer) footer() string {
	var parts []string
	for _, l := range a.summary.Losses {
		parts = append(parts, fmt.Sprintf("lost %d (%s)", l.N, l.Cause))
	}
	for _, l := range a.summary.Counts {
		parts = append(parts, fmt.Sprintf("%d %s", l.N, l.Cause))
	}
	return strings.Join(parts, ", ")
}

// read reads a result to its end.
func read(t testing.TB, r wire.Result) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	a := &answer{rows: map[string]int64{}}
	for {
		ev, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			a.summary = r.Summary()
			return a
		case errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("the query does not end: %s", stuck())
		case err != nil:
			t.Fatal(err)
		case ev.Kind == wire.Notice:
			a.notices = append(a.notices, ev.Text)
		case ev.Kind == wire.Rows:
			for i := range ev.Batch.Len() {
				cell := func(c int) types.Value { return ev.Batch.Cols[c].Value(ev.Batch.Row(i)) }
				n := int64(1)
				if len(ev.Batch.Cols) > 1 {
					n = cell(1).I
				}
				a.rows[cell(0).S] += n
			}
			ev.Batch.Release()
		}
	}
}

// arm starts a query and returns when it is armed. It returns nil if no return of any
// function may be observed, or if the module is not loaded at the moment.
func arm(t testing.TB, s wire.Session, query string) wire.Result {
	t.Helper()
	r, err := s.Execute(context.Background(), query)
	if err != nil {
		if strings.Contains(err.Error(), "function_start works: it needs no return") || strings.Contains(err.Error(), "no module of the target satisfies") {
			return nil
		}
		t.Fatalf("%s: %v", query, err)
	}
	return r
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = strconv.Quote(n)[1:]
		q[i] = "'" + q[i][:len(q[i])-1] + "'"
	}
	return strings.Join(q, ", ")
}

func itoa(n int) string { return strconv.Itoa(n) }

// set changes a setting of a session.
func set(t testing.TB, s wire.Session, assignment string) {
	t.Helper()
	r, err := s.Execute(context.Background(), "SET "+assignment)
	if err != nil {
		t.Fatalf("SET %s: %v", assignment, err)
	}
	r.Close()
}
