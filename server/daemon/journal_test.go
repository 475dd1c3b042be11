package daemon

import (
	"io"
	"strings"
	"testing"
	"time"
)

// A statement is refused that was being executed at two deaths within an hour, for ten
// minutes.
func TestDenials(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	killer, other := keyOf("alice", "SELECT  1"), keyOf("alice", "SELECT 2")
	if killer != keyOf("alice", " SELECT 1\n") || killer == keyOf("bob", "SELECT 1") {
		t.Fatal("which statements are one")
	}
	if keyOf("alice", "SELECT * FROM s FOR 8s") != keyOf("alice", "SELECT * FROM s for  4839135us") || keyOf("alice", "SELECT * FROM s LIMIT 10") != keyOf("alice", "SELECT * FROM s LIMIT 3") ||
		keyOf("alice", "SELECT * FROM s WHERE pid = 1 LIMIT 10") == keyOf("alice", "SELECT * FROM s WHERE pid = 2 LIMIT 10") {
		t.Fatal("what remains of a statement is the statement")
	}
	running := map[int64]entry{1: {Key: killer}, 2: {Key: killer}, 3: {Key: other}}
	d := newDenials()
	if got := d.died(now, running); len(got) != 0 {
		t.Errorf("refused after one death: %v", got)
	}
	delete(running, 3)
	if got := d.died(now.Add(50*time.Minute), running); len(got) != 1 || !got[killer] {
		t.Errorf("refused after two: %v", got)
	}
	if until := d.until[killer]; !until.Equal(now.Add(time.Hour)) {
		t.Errorf("until %s", until)
	}
	// The other one's death is forgotten by then.
	running[3] = entry{Key: other}
	if got := d.died(now.Add(61*time.Minute), running); len(got) != 1 || !got[killer] {
		t.Errorf("refused later: %v", got)
	}
	if got := d.died(now.Add(24*time.Hour), running); len(got) != 0 || len(d.until) != 0 {
		t.Errorf("refused the next day: %v, %v", got, d.until)
	}

	j := newJournal(io.Discard, start{Denied: map[string]time.Time{killer: time.Now().Add(time.Minute), other: time.Now().Add(-time.Minute)}, Restarts: time.Now(), Cause: "signal: killed"})
	if _, err := j.Begin("alice", "SELECT 1"); err == nil || !strings.Contains(err.Error(), "the daemon died twice while it executed this statement") {
		t.Errorf("a refused statement: %v", err)
	}
	for _, allowed := range [][2]string{{"alice", "SELECT 2"}, {"bob", "SELECT 1"}} {
		done, err := j.Begin(allowed[0], allowed[1])
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	if got := j.Greeting(); !strings.Contains(got, "the daemon was restarted at") || !strings.Contains(got, "signal: killed") {
		t.Errorf("greeting: %q", got)
	}
	j.start.Restarts = time.Now().Add(-time.Hour)
	if got := j.Greeting(); got != "" {
		t.Errorf("greeting an hour later: %q", got)
	}
}
