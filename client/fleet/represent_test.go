package fleet_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// said returns the rows and the notices of a statement.
func said(t *testing.T, s wire.Session, statement string) (rows int, notices []string) {
	t.Helper()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = r.Close() }()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, notices
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		if ev.Kind == wire.Notice {
			notices = append(notices, ev.Text)
		}
		if ev.Batch != nil {
			rows += ev.Batch.Len()
			ev.Batch.Release()
		}
	}
}

// EXPLAIN and DESCRIBE are answered once for all hosts, and a notice names the hosts that
// answer otherwise.
func TestAnswerForAllHosts(t *testing.T) {
	b := startBus(t)
	alone := open(t, engine(t))
	answer(t, alone, "CREATE STREAM few AS (SELECT n FROM series(4))")
	for host, columns := range map[string]string{"db1": "n", "db2": "n", "db3": "n AS m"} {
		e := engine(t)
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		answer(t, s, "CREATE STREAM few AS (SELECT "+columns+" FROM series(4))")
		leave := b.join(t, bus.Host{Name: host}, e)
		t.Cleanup(func() {
			leave()
			if err := errors.Join(s.Close(), e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	s := b.dial(t, 3)
	for _, of := range []struct {
		text   string
		differ bool
	}{
		{"DESCRIBE cpu_usage", false},
		{"EXPLAIN SELECT COUNT(*) FROM series(9)", false},
		{"EXPLAIN SELECT AVG(percent_busy) FROM SAMPLE(cpu_usage, 100ms)", false},
		{"DESCRIBE few", true},
		{"EXPLAIN SELECT * FROM few", true},
	} {
		rows, notices := said(t, alone, of.text)
		if of.differ {
			notices = append(notices, "this is the answer of db1; 1 of 3 hosts answer otherwise: db3")
		}
		if got, heard := said(t, s, of.text); got != rows || !slices.Equal(heard, notices) {
			t.Errorf("%s: %d rows of the fleet, %d of one host, notices %q, want %q", of.text, got, rows, heard, notices)
		}
	}
	if _, err := s.Execute(t.Context(), "DESCRIBE nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an unknown stream: %v", err)
	}
}
