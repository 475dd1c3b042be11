package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// seriesFleet is a fleet whose hosts have the rows of series.
func seriesFleet(t *testing.T, b *fleetBus, names ...string) (leave map[string]func()) {
	leave = map[string]func(){}
	for i, name := range names {
		leave[name] = b.host(t, name, map[string]string{"rack": fmt.Sprint("r", i%2)})
	}
	return leave
}

// host joins a host with an engine of its own.
func (b *fleetBus) host(t *testing.T, name string, labels map[string]string) (leave func()) {
	t.Helper()
	e := engine(t)
	leave = b.join(t, bus.Host{Name: name, Labels: labels, Version: "v1"}, e)
	t.Cleanup(func() {
		leave()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return leave
}

// WHERE on the host and its labels chooses hosts; the footer counts only those.
func TestHostsAreChosen(t *testing.T) {
	b := startBus(t)
	seriesFleet(t, b, "db1", "db2.example.com", "db3")
	s := b.dial(t, 3)
	for _, of := range []struct{ where, rows, hosts string }{
		{"", "30", "3 of 3 hosts"},
		{"WHERE host = 'db1'", "10", "1 of 1 hosts"},
		{"WHERE host LIKE 'db2.%' OR host = 'db3'", "20", "2 of 2 hosts"},
		{"WHERE host_label('rack') = 'r0' AND n < 5", "8", "2 of 2 hosts"},
		{"WHERE host_label('rack') IN ('r1')", "10", "1 of 1 hosts"},
		{"WHERE host_label('none') IS NULL AND 'r0' = host_label('rack')", "20", "2 of 2 hosts"},
		{"WHERE n < 3 OR host = 'db1'", "14", "3 of 3 hosts"}, // a condition on rows, too
	} {
		got, sum := answer(t, s, "SELECT COUNT(*) FROM series(10) "+of.where)
		if got != "count(*) BIGINT\n"+of.rows+" 0" || len(sum.Notes) == 0 || sum.Notes[0] != of.hosts {
			t.Errorf("%s: %q, %q", of.where, got, sum.Notes)
		}
	}
	if _, err := s.Execute(t.Context(), "SELECT COUNT(*) FROM series(10) WHERE host = 'db4'"); err == nil || !strings.Contains(err.Error(), "no host matches the query") {
		t.Errorf("without a host: %v", err)
	}
	got, _ := answer(t, s, "SELECT host_label('rack') AS rack, COUNT(*) FROM series(10) GROUP BY host_label('rack') ORDER BY rack")
	if want := "rack VARCHAR, count(*) BIGINT\n0 0r0,20 0\n0 0r1,10 0"; got != want {
		t.Errorf("by label: %q, want %q", got, want)
	}
}

// A session's settings are part of each statement, definitions are made at each host. A mistake is one error,
// with its place.
func TestFleetSessions(t *testing.T) {
	b := startBus(t)
	seriesFleet(t, b, "db1", "db2")
	s := b.dial(t, 2)
	for _, text := range []string{"CREATE STREAM few AS (SELECT n FROM series(4))", "SET rate_window = 200ms"} {
		if got, _ := answer(t, s, text); !strings.Contains(got, "\n") {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got, _ := answer(t, s, "SELECT COUNT(*) FROM few"); got != "count(*) BIGINT\n8 0" {
		t.Errorf("of a defined stream: %q", got)
	}
	if _, err := s.Execute(t.Context(), "SELECT nothing FROM few"); err == nil || !strings.Contains(err.Error(), "nothing") || !strings.Contains(err.Error(), "^") {
		t.Errorf("a mistake: %v", err)
	}
	d, err := s.Describe(t.Context(), "SELECT n FROM few")
	if err != nil || len(d.Columns) == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if names := s.Complete(t.Context(), "stream", "", "fe"); len(names) != 1 || names[0] != "few" {
		t.Errorf("completions: %q", names)
	}
	if _, err := s.Execute(t.Context(), "CREATE MODEL m AS SELECT GRAMMAR(n) FROM few"); err == nil {
		t.Error("a model is created")
	}
}

// hostNamed returns the row of SHOW HOSTS of a host.
func hostNamed(t *testing.T, s wire.Session, name string) string {
	t.Helper()
	got, _ := answer(t, s, "SHOW HOSTS LIKE '"+name+"'")
	_, row, _ := strings.Cut(got, "\n")
	return row
}

// The footer names the hosts that are silent: those that were heard before, and those that
// have never been.
func TestSilentHosts(t *testing.T) {
	b := startBus(t)
	leave := seriesFleet(t, b, "db1", "db2", "db3")
	s := b.dial(t, 3)
	nc := b.connect(t)
	defer nc.Close()
	if err := bus.DescribeHost(t.Context(), nc, "db4", bus.Encode(bus.Host{Name: "db4"})); err != nil {
		t.Fatal(err)
	}
	leave["db2"]()
	testenv.Until(t, "db2 is silent, and db4 is known", func() bool {
		return strings.Contains(hostNamed(t, s, "db2"), "NULL,NULL") && hostNamed(t, s, "db4") != ""
	})
	got, sum := answer(t, s, "SELECT COUNT(*) FROM series(10)")
	if got != "count(*) BIGINT\n20 0" {
		t.Errorf("%q", got)
	}
	if n := sum.Notes[0]; !strings.HasPrefix(n, "2 of 4 hosts, 2 silent: db2 (") || !strings.HasSuffix(n, "s), db4 (never)") {
		t.Errorf("the footer has %q", n)
	}
}

// A host whose agent is started again joins a running query. Nothing counts twice, and the
// gap is named.
func TestRestartedHost(t *testing.T) {
	b := startBus(t)
	leave := seriesFleet(t, b, "db1", "db2")
	s := b.dial(t, 2)
	r, err := s.Execute(t.Context(), "SELECT COUNT(*), MIN(host) FROM SAMPLE(memory_usage, 50ms) EMIT EVERY 200ms")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var counts []int64
	next := func() (ended bool) {
		for {
			ev, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				return true
			}
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == wire.Flush {
				return false
			}
			if ev.Batch != nil {
				counts = append(counts, ev.Batch.Cols[0].Value(ev.Batch.Row(0)).I)
				ev.Batch.Release()
			}
		}
	}
	for range 3 {
		next()
	}
	leave["db2"]()
	b.host(t, "db2", nil)
	testenv.Until(t, "the gap is named", func() bool {
		next()
		return strings.Contains(strings.Join(r.Summary().Notes, "; "), "db2: it was restarted, and nothing is known from ")
	})
	for range 3 {
		next()
	}
	r.Stop()
	for !next() {
	}
	for i := range counts[1:] {
		if counts[i+1] < counts[i] {
			t.Errorf("totals shrink: %v", counts)
		}
	}
	sum := r.Summary()
	if n := sum.Notes[0]; n != "2 of 2 hosts" {
		t.Errorf("the footer has %q", sum.Notes)
	}
	if len(sum.Losses) == 0 {
		t.Error("a result with a gap is said to be complete")
	}
}
