package server_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/wire"
)

// ask runs a statement to its end.
func ask(t testing.TB, s wire.Session, statement string) reply {
	t.Helper()
	return read(t, start(t, s, statement))
}

// TestQueriesShareProbes runs two queries over one function: there is one
// probe, both see every call, and the last one out detaches it.
func TestQueriesShareProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `#include <unistd.h>
int work(int i) { return i + 1; }
int rest(int i) { return i + 2; }
int main(void) { volatile int s = 0; for (;;) { s = work(s); s = rest(s); usleep(500); } }`, "-O1", "-fno-inline")
	cmd := exec.Command(target)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()

	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	probes := func() map[string]int64 {
		out := map[string]int64{}
		a := ask(t, s, "SELECT function_name, queries FROM sys.probes WHERE provider = 'uprobe'")
		for i, row := range a.rows {
			out[row[0]] += number(t, a, i, 1)
		}
		return out
	}
	first := start(t, s, "SELECT COUNT(*) FROM function_duration WHERE function_name IN (work, rest)")
	if p := probes(); p["work"] != 1 || p["rest"] != 1 {
		t.Errorf("one query: %v", p)
	}
	second := start(t, s, "SELECT COUNT(*), MIN(arg0), MAX(arg0) FROM function_duration WHERE function_name = 'work'")
	if p := probes(); p["work"] != 2 || p["rest"] != 1 {
		t.Errorf("two queries: %v", p)
	}
	hits := func(which string) int64 {
		return number(t, ask(t, s, "SELECT "+which+"(hits) FROM sys.probes WHERE provider = 'uprobe'"), 0, 0)
	}
	enough := hits("MAX") + 100
	testenv.Until(t, "calls", func() bool { return hits("MIN") >= enough })
	second.Stop()
	b := read(t, second)
	complete(t, b)
	// work's argument rises by 3 from call to call: none is missing or double.
	n, lo, hi := number(t, b, 0, 0), number(t, b, 0, 1), number(t, b, 0, 2)
	if n < 50 || hi-lo != 3*(n-1) {
		t.Errorf("the second query saw %d calls with arguments from %d to %d", n, lo, hi)
	}
	if p := probes(); p["work"] != 1 || p["rest"] != 1 {
		t.Errorf("after the second query: %v", p)
	}
	first.Stop()
	a := read(t, first)
	complete(t, a)
	if all := number(t, a, 0, 0); all < 2*n {
		t.Errorf("the first query saw %d calls, the second %d", all, n)
	}
	if p := probes(); len(p) != 0 {
		t.Errorf("after both: %v", p)
	}
}

// TestStopAndShow ends a query from beside it.
func TestStopAndShow(t *testing.T) {
	s := newSession(t, wire.Options{})
	q := start(t, s, "SELECT COUNT(*) FROM SAMPLE(memory_usage, 20ms)")
	testenv.Until(t, "samples", func() bool {
		return number(t, ask(t, s, "SELECT acquired FROM sys.queries WHERE statement LIKE 'SELECT COUNT%'"), 0, 0) >= 5
	})
	var a reply
	testenv.Until(t, "the queries that asked have ended", func() bool {
		a = ask(t, s, "SHOW QUERIES")
		return len(a.rows) == 1
	})
	if a.rows[0][1] != "running" {
		t.Fatalf("queries: %v", a.rows)
	}
	ops := ask(t, s, "SELECT operator, rows_in, rows_out FROM sys.operators WHERE query_id = "+a.rows[0][0])
	if len(ops.rows) != 2 {
		t.Errorf("operators: %v", ops.rows)
	}
	if got := start(t, s, "STOP "+a.rows[0][0]).Message(); got != fmt.Sprintf("query %s is ending", a.rows[0][0]) {
		t.Errorf("STOP said %q", got)
	}
	if n := number(t, read(t, q), 0, 0); n < 3 {
		t.Errorf("%d samples", n)
	}
	testenv.Until(t, "the stopped query has ended", func() bool { return len(ask(t, s, "SHOW QUERIES").rows) == 0 })
}

// TestDropsAreCounted reads too slowly: what does not fit is dropped, counted,
// and said, and rows given plus rows dropped are rows acquired.
func TestDropsAreCounted(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `#include <unistd.h>
int work(int i) { return i + 1; }
int main(void) { volatile int s = 0; for (int i = 0; i < 100000; i++) s = work(s); }`, "-O1", "-fno-inline")
	s := newSessionOf(t, server.Options{QueueBatches: 4}, wire.Options{Command: []string{target}})
	ask(t, s, "SET max_overhead = 0") // on a busy machine it would end the query
	q := start(t, s, "SELECT arg0 FROM function_start WHERE function_name = 'work'")
	testenv.Until(t, "nobody reads, and the queue is full", func() bool {
		return number(t, ask(t, s, "SELECT lost FROM sys.queries WHERE statement LIKE 'SELECT arg0%'"), 0, 0) > 0
	})
	a := read(t, q)
	var lost uint64
	for _, l := range a.summary.Losses {
		lost += l.N
	}
	if given := uint64(len(a.rows)); given != a.summary.Rows || given+lost != 100_000 {
		t.Errorf("%d rows given (%d by the footer), %d lost: not 100,000", given, a.summary.Rows, lost)
	}
	if lost == 0 {
		t.Error("the queue of four batches held it all")
	}
}

// TestSettingsReachProbes holds SET to having an effect where it says.
func TestSettingsReachProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	s := newSession(t, wire.Options{PID: r.pid})
	ask(t, s, "SET max_probes = 2")
	_, err := s.Execute(t.Context(), "SELECT COUNT(*) FROM function_start WHERE function_name IN (processCommand, call, lookupKey)")
	if err == nil || !strings.Contains(err.Error(), "at most 2 may be") {
		t.Errorf("three functions with SET max_probes = 2: %v", err)
	}
	a := ask(t, s, "SELECT COUNT(*) FROM function_start WHERE function_name IN (processCommand, call) FOR 50ms")
	complete(t, a)

	// A window closes when the watermark passes its end: with a lateness of 2 s
	// none does in 1.2 s, and the rest comes at the end, without Flush in between.
	began := time.Now()
	ask(t, s, "SET lateness = 2s")
	q := start(t, s, "SELECT window_start, COUNT(*) FROM TUMBLE(function_start, 100ms) WHERE function_name = 'serverCron' FOR 1200ms")
	ev, err := q.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Since(began); at < 1200*time.Millisecond {
		t.Errorf("a window closed after %s, with a lateness of 2 s: %+v", at, ev)
	}
}

// TestEventRateIsReported holds what is above the rate to being a loss with a name,
// in the footer and in sys.drops.
func TestEventRateIsReported(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `#include <unistd.h>
int work(int i) { return i + 1; }
int main(void) { volatile int s = 0; for (int i = 0; i < 3000; i++) s = work(s); for (;;) pause(); }`, "-O1", "-fno-inline")
	s := newSession(t, wire.Options{Command: []string{target}})
	ask(t, s, "SET max_event_rate = 50")
	ask(t, s, "SET kernel = off") // what is aggregated there has no rate
	q := start(t, s, "SELECT COUNT(*), MAX(timestamp) FROM function_start WHERE function_name = 'work'")
	var dropped int64
	testenv.Until(t, "the rate limit has dropped rows", func() bool {
		if a := ask(t, s, "SELECT n FROM sys.drops WHERE cause = 'rate limit' AND loss"); len(a.rows) > 0 {
			dropped = number(t, a, 0, 0)
		}
		return dropped > 0
	})
	q.Stop()
	a := read(t, q)
	l := a.summary.Losses
	if len(l) != 1 || l[0].Cause != "rate limit" || dropped == 0 || dropped > int64(l[0].N) {
		t.Fatalf("the footer says %+v, sys.drops said %d", l, dropped)
	}
	if n := number(t, a, 0, 0); n < 50 || n+int64(l[0].N) != 3000 {
		t.Errorf("%d calls seen and %d lost, of 3,000", n, l[0].N)
	}
}
