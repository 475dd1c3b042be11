package remote_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// calls writes a file for a server: 20,000 rows with times, some of them late, in
// groups, with NULL values.
func calls(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp,name,ms\n")
	for i := range 20_000 {
		at := 1_700_000_000_000 + int64(i)*7
		if i%97 == 0 {
			at -= 40
		}
		ms := fmt.Sprint(i * i % 1009)
		if i%11 == 0 {
			ms = ""
		}
		fmt.Fprintf(&b, "%d.%03d,f%d,%s\n", at/1000, at%1000, i*i%23, ms)
	}
	path := filepath.Join(t.TempDir(), "calls.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// divided are queries of which a client may execute a part; %s is the file.
var divided = []string{
	"SELECT n, n * n AS square FROM series(30000) WHERE n % 7 = 3",
	"SELECT n FROM series(30000) WHERE n % 7 = 3",
	"SELECT 'x' || CAST(n AS VARCHAR) AS s FROM series(20000)",
	"SELECT n % 10 AS k, count(*), count(n), sum(n), min(n), max(n), avg(n), stddev(n), variance(n), median(n), quantile(n, 0.9), histogram(n) FROM series(30000) WHERE n % 3 <> 0 GROUP BY k",
	"SELECT 'g' || CAST(n % 5 AS VARCHAR) AS g, n % 2 = 0 AS even, count(*) FILTER (WHERE n > 9999), first(n), last(n) FROM series(20000) GROUP BY g, even ORDER BY g, even",
	"SELECT count(*), sum(n) FROM series(20000) WHERE n < 0",
	"SELECT count(*) FROM series(30000)",
	"SELECT n % 7 AS k, count(*) AS c FROM series(20000) GROUP BY k HAVING count(*) > 2857 ORDER BY c DESC, k LIMIT 3",
	"SELECT DISTINCT count(*) FROM series(20000) GROUP BY n % 7",
	"SELECT n FROM series(20000) WHERE n % 1000 = 999 LIMIT 7",
	"SELECT n % 4 AS k, sum(sqrt(n)), topk(n % 3, 2) FROM series(20000) GROUP BY k",
	"SELECT n % 100 AS k FROM series(20000) ORDER BY k DESC LIMIT 5",
	"SELECT count(*), sum(c) FROM (SELECT n % 10 AS k, count(*) AS c FROM series(20000) WHERE n > 7 GROUP BY k)",
	"SELECT name, count(*), count(ms), avg(ms), max(ms) FROM file('%s') WHERE name <> 'f4' GROUP BY name",
	"SELECT window_start, window_end, name, count(*), sum(ms), median(ms) FROM TUMBLE(file('%s'), 3s) WHERE ms IS NULL OR ms > 5 GROUP BY window_start, window_end, name",
	"SELECT window_end, count(*), first(ms), last(ms) FROM HOP(file('%s'), 2s, 6s) GROUP BY window_end",
	"SELECT count(*), max(ms) FROM SESSION(file('%s'), 10ms) GROUP BY window_start",
	"SELECT timestamp, upper(name) FROM file('%s') WHERE name ~ '^f1[0-3]$'",
	"SELECT a.name, count(*) FROM file('%[1]s') a ASOF JOIN file('%[1]s') b ON a.name = b.name GROUP BY a.name",
}

// statement is a query over a file.
func statement(query, file string) string {
	if strings.Contains(query, "%s") || strings.Contains(query, "%[1]s") {
		return fmt.Sprintf(query, file)
	}
	return query
}

// resultText returns a result with its losses.
func resultText(t *testing.T, r wire.Result) string {
	t.Helper()
	var b strings.Builder
	for _, c := range r.Columns() {
		fmt.Fprintf(&b, "%s %s;", c.Name, c.Type)
	}
	rows, kinds, _ := all(t, r)
	for _, row := range rows {
		b.WriteString("\n")
		for _, v := range row {
			b.WriteString(plan.FormatValue(v) + "|")
		}
	}
	flushes := 0
	for _, k := range kinds {
		if k == wire.Flush {
			flushes++
		}
	}
	sum := r.Summary()
	fmt.Fprintf(&b, "\n%d results, %d rows, lost %v", flushes, sum.Rows, sum.Losses)
	return b.String()
}

// The result of a query does not depend on where it is divided, nor on how often
// operators move while it runs.
func TestOperatorsMove(t *testing.T) {
	file := calls(t)
	ways := map[string]func(uint64) int{
		"at the base":       func(uint64) int { return 0 },
		"behind filters":    func(uint64) int { return 1 },
		"behind the stage":  func(uint64) int { return 2 },
		"to and fro":        func(n uint64) int { return int(n / 1024 % 3) },
		"once, to client":   func(n uint64) int { return map[bool]int{true: 2}[n < 10_000] },
		"once, from client": func(n uint64) int { return map[bool]int{true: 2}[n >= 10_000] },
		"at random":         func(n uint64) int { return int((n/512*0x9e3779b97f4a7c15)>>60) % 3 },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			if name != "at random" {
				testenv.Long(t)
			}
			s := serveEngine(t, flight.Options{}, server.Options{Steer: way})
			here, there := s.local(t), s.session(t, wire.Options{})
			for _, query := range divided {
				st := statement(query, file)
				want, got := resultText(t, execute(t, here, st)), resultText(t, execute(t, there, st))
				if got != want {
					t.Errorf("%s\nat one site:\n%.600s\ndivided:\n%.600s", st, want, got)
				}
			}
		})
	}
}

// SET placement selects the placement, which EXPLAIN shows.
func TestPlacementIsSet(t *testing.T) {
	file := calls(t)
	s := serve(t, flight.Options{})
	here, there := s.local(t), s.session(t, wire.Options{})
	for _, where := range []string{"client", "server", "auto"} {
		all(t, execute(t, there, "SET placement = '"+where+"'"))
		for _, query := range divided {
			st := statement(query, file)
			want, got := resultText(t, execute(t, here, st)), resultText(t, execute(t, there, st))
			if got != want {
				t.Errorf("%s at %s\nat one site:\n%.600s\ndivided:\n%.600s", st, where, want, got)
			}
		}
		text := explanation(t, there, "EXPLAIN SELECT n % 10 AS k, count(*) FROM series(100000) WHERE n % 3 = 0 GROUP BY k")
		wants := map[string][]string{
			"client": {"aggregate count(*) by", "(client)", "* all at the client: 1·0s + 1·", "filter", "(client)"},
			"server": {"(server)"},
			"auto":   {"merges states of the server's", "  all at the client", "* as much as possible at the server", "(server)"},
		}[where]
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Errorf("placement = %s: EXPLAIN does not say %q:\n%s", where, w, text)
			}
		}
		if where == "server" && strings.Contains(text, "client") {
			t.Errorf("placement = server, and something is at the client:\n%s", text)
		}
	}
	if text := explanation(t, here, "EXPLAIN SELECT count(*) FROM series(100)"); strings.Contains(text, "client") {
		t.Errorf("an engine in the same process leaves something to its client:\n%s", text)
	}
}

// EXPLAIN ANALYZE shows what has moved, and when.
func TestMovesAreExplained(t *testing.T) {
	s := serveEngine(t, flight.Options{}, server.Options{Steer: func(n uint64) int { return map[bool]int{true: 2}[n < 5000] }})
	r := execute(t, s.session(t, wire.Options{}), "EXPLAIN ANALYZE SELECT n % 10 AS k, count(*) FROM series(100000) WHERE n % 3 = 0 GROUP BY k")
	if cols := r.Columns(); len(cols) != 1 || cols[0].Name != "plan" {
		t.Fatalf("the columns are %v", cols)
	}
	text := rowsText(t, r)
	for _, w := range []string{"moved after", "behind row 5120: from as much as possible at the server to all at the client", "complete: nothing was lost"} {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not said:\n%s", w, text)
		}
	}
}

func explanation(t *testing.T, x wire.Session, statement string) string {
	t.Helper()
	return rowsText(t, execute(t, x, statement))
}

func rowsText(t *testing.T, r wire.Result) string {
	t.Helper()
	rows, _, _ := all(t, r)
	var lines []string
	for _, row := range rows {
		lines = append(lines, row[0].S)
	}
	return strings.Join(lines, "\n")
}
