package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/client/fleet"
	"endoscope/client/remote"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

func engine(t testing.TB) wire.Engine {
	t.Helper()
	e, err := server.New(server.Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, e wire.Engine) wire.Session {
	t.Helper()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// answer returns the result of a statement: its columns, its rows, sorted unless
// they have an order, and the footer.
func answer(t *testing.T, s wire.Session, statement string, args ...types.Value) (text string, sum wire.Summary) {
	t.Helper()
	r, err := s.Execute(t.Context(), statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = r.Close() }()
	var names, rows []string
	for _, c := range r.Columns() {
		names = append(names, c.Name+" "+c.Type.String())
	}
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			var cells []string
			for c := range ev.Batch.Cols {
				v := ev.Batch.Cols[c].Value(ev.Batch.Row(i))
				if v.Type == types.Encoding && !v.IsNull {
					v.S = fmt.Sprint(v.A)
				}
				cells = append(cells, map[bool]string{true: "NULL", false: strings.TrimSpace(fmt.Sprint(v.I, v.F, v.S))}[v.IsNull])
			}
			rows = append(rows, strings.Join(cells, ","))
		}
		ev.Batch.Release()
	}
	if !ordered(statement) {
		slices.Sort(rows)
	}
	if r.Message() != "" {
		rows = append(rows, r.Message())
	}
	return strings.Join(names, ", ") + "\n" + strings.Join(rows, "\n"), r.Summary()
}

// The aggregate of several hosts is that of one with the rows of all.
func TestAggregatesAreMerged(t *testing.T) {
	const hosts = 3
	var members []fleet.Host
	for i := range hosts {
		members = append(members, fleet.Host{Name: fmt.Sprint("host", i), Engine: engine(t)})
	}
	all, one := open(t, fleet.New(members)), open(t, engine(t))
	for _, q := range []string{
		"SELECT COUNT(*), COUNT(m), SUM(n), MIN(m), MAX(n), AVG(n), AVG(d), AVG(m) FROM %s",
		"SELECT COUNT(*) AS calls, SUM(n) FROM %s WHERE n > 1000",
		"SELECT n %% 3 AS k, COUNT(*) FILTER (WHERE n > 5), AVG(n) * 2 + 1 AS x, MAX(n) - MIN(n) FROM %s GROUP BY k",
		"SELECT 'k' || (n %% 4)::VARCHAR, SUM(m), AVG(d) FROM %s WHERE n <> $1 GROUP BY 1 HAVING COUNT(*) > 2 ORDER BY 1 DESC LIMIT 2",
		"SELECT COUNT(*), m IS NULL FROM %s GROUP BY m IS NULL ORDER BY COUNT(*)",
		"SELECT CASE WHEN SUM(n) > 10 THEN 'many' ELSE 'few' END AS how, n %% 2 AS k FROM %s GROUP BY n %% 2 ORDER BY k",
		"SELECT avg(0ns - d), -SUM(n), COUNT(*) + COUNT(*) FROM %s",
		"SELECT DISTINCT COUNT(*) FROM %s GROUP BY n",
		"SELECT MEDIAN(n), QUANTILE(m, 0.9), QUANTILE(d, 0.25), MEDIAN(d) AS half, QUANTILE(n, 0.99) * 2 FROM %s",
		"SELECT n %% 3 AS k, MEDIAN(d) FILTER (WHERE n > 2), COUNT(*), AVG(n) FROM %s GROUP BY k HAVING MEDIAN(d) > 1ns",
		"SELECT COUNT(DISTINCT n), COUNT(DISTINCT n) + COUNT(*), SUM(n), MEDIAN(n), MIN(m) FROM %s",
		"SELECT n %% 2 AS k, COUNT(DISTINCT m) FILTER (WHERE n > 5), AVG(d) FROM %s GROUP BY k ORDER BY k DESC",
		"SELECT COUNT(DISTINCT 'x') FROM %s",
		"SELECT DISTINCT n %% 4 AS k, m IS NULL FROM %s",
		"SELECT DISTINCT n FROM %s WHERE n > $1 ORDER BY n DESC LIMIT 3",
		"SELECT n FROM %s GROUP BY n",
		"SELECT DISTINCT n FROM %s GROUP BY n",
		"SELECT COUNT(*), '{0}' AS z, AVG(n), '{{1}' || '{' AS y, AVG(d) FROM %s",
	} {
		const rows = "SELECT n, n * 1ns AS d, CASE WHEN n % 3 > 0 THEN n * 0.5 END AS m FROM series(20)"
		union := strings.Repeat(rows+" UNION ALL ", hosts)
		var args []types.Value
		if strings.Contains(q, "$1") {
			args = append(args, types.Int(7))
		}
		want, _ := answer(t, one, fmt.Sprintf(q, "("+strings.TrimSuffix(union, " UNION ALL ")+")"), args...)
		got, sum := answer(t, all, fmt.Sprintf(q, "("+rows+")"), args...)
		if got != want {
			t.Errorf("%s\nof one\n%s\nof several\n%s", q, want, got)
		}
		if !slices.Contains(sum.Notes, "3 of 3 hosts") {
			t.Errorf("the footer has %v", sum.Notes)
		}
	}
}

// Quantiles of several hosts are exact as long as these have 1,000 values together, and
// those of one host with all rows in any case.
func TestQuantilesAreMerged(t *testing.T) {
	const hosts = 3
	var members []fleet.Host
	for i := range hosts {
		members = append(members, fleet.Host{Name: fmt.Sprint("host", i), Engine: engine(t)})
	}
	all, one := open(t, fleet.New(members)), open(t, engine(t))
	for _, n := range []int{1, 300, 333, 334, 5000} {
		rows := fmt.Sprintf("SELECT (1000000 + n * 7919 %% %d)::BIGINT AS x FROM series(%d)", n, n)
		union := strings.TrimSuffix(strings.Repeat(rows+" UNION ALL ", hosts), " UNION ALL ")
		const q = "SELECT MIN(x), QUANTILE(x, 0.0)::BIGINT, QUANTILE(x, 0.3)::BIGINT, QUANTILE(x, 0.99)::BIGINT, QUANTILE(x, 1.0)::BIGINT, MAX(x) FROM (%s)"
		want, _ := answer(t, one, fmt.Sprintf(q, union))
		got, _ := answer(t, all, fmt.Sprintf(q, rows))
		if got != want {
			t.Errorf("of %d values\nof one\n%s\nof several\n%s", hosts*n, want, got)
		}
		// The values are 1000000 and those above, three times each.
		rank := func(p int) int { return 1_000_000 + ((p*hosts*n+99)/100-1)/hosts }
		exact := ""
		for _, x := range []int{1_000_000, 1_000_000, rank(30), rank(99), 1_000_000 + n - 1, 1_000_000 + n - 1} {
			exact += fmt.Sprintf(",%d 0", x)
		}
		if _, values, _ := strings.Cut(got, "\n"); (","+values == exact) != (hosts*n <= 1000) {
			t.Errorf("of %d values they are %s; exactly %s", hosts*n, values, exact)
		}
	}
}

// Windows of several hosts are those of one with the rows of all.
func TestWindowsAreMerged(t *testing.T) {
	const hosts = 3
	var members []fleet.Host
	for i := range hosts {
		members = append(members, fleet.Host{Name: fmt.Sprint("host", i), Engine: engine(t)})
	}
	all, one := open(t, fleet.New(members)), open(t, engine(t))
	each, every := filepath.Join(t.TempDir(), "each.csv"), filepath.Join(t.TempDir(), "every.csv")
	for path, times := range map[string]int{each: 1, every: hosts} {
		text := "timestamp,n,s\n"
		for i := range 200 {
			line := fmt.Sprintf("2026-01-02T03:04:%02d.%03dZ,%d,%c\n", i/10, i%10*100, i*i%37, 'a'+i%3)
			text += strings.Repeat(line, times)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []string{
		"SELECT window_start, window_end, COUNT(*), SUM(n), AVG(n) FROM TUMBLE(file('%s'), 3s)",
		"SELECT s, window_end - window_start AS d, MEDIAN(n), COUNT(DISTINCT n) FROM HOP(file('%s'), 1s, 4s) GROUP BY s, window_start HAVING COUNT(*) > 5",
		"SELECT window_end, s, RATE(*), MAX(n) FROM TUMBLE(file('%s'), 3s) WHERE n > 3 GROUP BY s ORDER BY MAX(n) DESC, s LIMIT 2",
		"SELECT s, date_trunc('minute', f.window_start) AS m, COUNT(*) FROM TUMBLE(file('%s'), 7s) AS f GROUP BY s ORDER BY s",
	} {
		want, _ := answer(t, one, fmt.Sprintf(q, every))
		got, sum := answer(t, all, fmt.Sprintf(q, each))
		if got != want || strings.Count(got, "\n") < 3 {
			t.Errorf("%s\nof one\n%s\nof several\n%s", q, want, got)
		}
		if !slices.Contains(sum.Notes, "3 of 3 hosts") || len(sum.Losses) > 0 {
			t.Errorf("the footer has %+v", sum)
		}
	}
}

// EMIT EVERY returns the sum over all hosts, which never decreases.
func TestTotalsAgainAndAgain(t *testing.T) {
	s := open(t, fleet.New([]fleet.Host{{Name: "a", Engine: engine(t)}, {Name: "b", Engine: engine(t)}}))
	r, err := s.Execute(t.Context(), "SELECT COUNT(*) AS n, COUNT(DISTINCT timestamp) AS d FROM SAMPLE(cpu_usage, 10ms) EMIT EVERY 100ms")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	results, before := 0, int64(0)
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind {
		case wire.Flush:
			results++
		case wire.Rows:
			n, d := ev.Batch.Cols[0].Value(ev.Batch.Row(0)).I, ev.Batch.Cols[1].Value(ev.Batch.Row(0)).I
			if ev.Batch.Len() != 1 || n < before || d > n {
				t.Errorf("after %d there are %d, %d of them different, in %d rows", before, n, d, ev.Batch.Len())
			}
			before = n
			ev.Batch.Release()
		}
		if results >= 5 && before >= 40 {
			r.Stop()
		}
	}
}

func TestRowsHaveTheirHost(t *testing.T) {
	s := open(t, fleet.New([]fleet.Host{{Name: "a", Engine: engine(t)}, {Name: "b", Engine: engine(t)}}))
	for statement, want := range map[string]string{
		"SELECT n FROM series(2)":                                                                               "host VARCHAR, n BIGINT\n0 0a,1 0\n0 0a,2 0\n0 0b,1 0\n0 0b,2 0",
		"SELECT n, host, n + 1 AS m FROM series(1)":                                                             "n BIGINT, host VARCHAR, m BIGINT\n1 0,0 0a,2 0\n1 0,0 0b,2 0",
		"SELECT host, COUNT(*) FROM series(2) GROUP BY host":                                                    "host VARCHAR, count(*) BIGINT\n0 0a,2 0\n0 0b,2 0",
		"SELECT n, host, MEDIAN(n) > 0 AS m FROM series(1) GROUP BY host, n":                                    "n BIGINT, host VARCHAR, m BOOLEAN\n1 0,0 0a,1 0\n1 0,0 0b,1 0",
		"SELECT n * 2 AS m, n FROM series(3) ORDER BY m DESC LIMIT 3":                                           "host VARCHAR, m BIGINT, n BIGINT\n0 0a,6 0,3 0\n0 0b,6 0,3 0\n0 0a,4 0,2 0",
		"SELECT n, host FROM series(3) WHERE n > 1 ORDER BY 1":                                                  "n BIGINT, host VARCHAR\n2 0,0 0a\n2 0,0 0b\n3 0,0 0a\n3 0,0 0b",
		"SELECT host, n % 2 AS k, COUNT(*) FROM series(3) GROUP BY host, n % 2 ORDER BY k DESC LIMIT 2":         "host VARCHAR, k BIGINT, count(*) BIGINT\n0 0a,1 0,2 0\n0 0b,1 0,2 0",
		"SELECT n FROM series(3) ORDER BY n % 2, n DESC LIMIT 3":                                                "host VARCHAR, n BIGINT\n0 0a,2 0\n0 0b,2 0\n0 0a,3 0",
		"SELECT n AS m FROM series(2) ORDER BY n DESC":                                                          "host VARCHAR, m BIGINT\n0 0a,2 0\n0 0b,2 0\n0 0a,1 0\n0 0b,1 0",
		"SELECT n, host FROM series(3) ORDER BY host DESC, n LIMIT 4":                                           "n BIGINT, host VARCHAR\n1 0,0 0b\n2 0,0 0b\n3 0,0 0b\n1 0,0 0a",
		"SELECT host, n FROM series(3) ORDER BY 2 DESC, 1 DESC LIMIT 3":                                         "host VARCHAR, n BIGINT\n0 0b,3 0\n0 0a,3 0\n0 0b,2 0",
		"SELECT n FROM series(2) ORDER BY host DESC":                                                            "host VARCHAR, n BIGINT\n0 0b,1 0\n0 0b,2 0\n0 0a,1 0\n0 0a,2 0",
		"SELECT n % 2 AS k, COUNT(*) AS c FROM series(3) GROUP BY host, k ORDER BY SUM(n), k":                   "host VARCHAR, k BIGINT, c BIGINT\n0 0a,0 0,1 0\n0 0b,0 0,1 0\n0 0a,1 0,2 0\n0 0b,1 0,2 0",
		"SELECT host FROM series(1)":                                                                            "host VARCHAR\n0 0a\n0 0b",
		"SELECT n, host = 'a' AS a FROM series(2) WHERE host <> 'b'":                                            "host VARCHAR, n BIGINT, a BOOLEAN\n0 0a,1 0,1 0\n0 0a,2 0,1 0",
		"SELECT upper(host) AS h, COUNT(*) AS c FROM series(2) GROUP BY h ORDER BY h":                           "h VARCHAR, c BIGINT\n0 0A,2 0\n0 0B,2 0",
		"SELECT COUNT(*) FILTER (WHERE host = 'a') AS c FROM series(3)":                                         "c BIGINT\n3 0",
		"SELECT MAX(c) AS m, COUNT(*) AS k FROM (SELECT host AS h, COUNT(*) AS c FROM series(3) GROUP BY host)": "m BIGINT, k BIGINT\n3 0,2 0",
		"SELECT c FROM (SELECT n AS c, host FROM series(3) LIMIT 2)":                                            "c BIGINT\n1 0\n2 0",
		"SELECT COUNT(*) AS c FROM (SELECT n FROM series(3) ORDER BY n)":                                        "c BIGINT\n6 0",
		"SELECT * FROM series(2) GROUP BY n":                                                                    "n BIGINT\n1 0\n2 0",
		"SELECT DISTINCT * FROM series(3) ORDER BY n DESC LIMIT 2":                                              "n BIGINT\n3 0\n2 0",
		"SELECT DISTINCT host, n % 2 AS k FROM series(3) ORDER BY k, host":                                      "host VARCHAR, k BIGINT\n0 0a,0 0\n0 0b,0 0\n0 0a,1 0\n0 0b,1 0",
		"SELECT COUNT(*) AS n FROM (SELECT n FROM series(3) LIMIT 2)":                                           "n BIGINT\n2 0",
		"SELECT * FROM (SELECT n, n * 2 AS m FROM series(3) ORDER BY n DESC LIMIT 3) AS x WHERE x.n > 2":        "n BIGINT, m BIGINT\n3 0,6 0\n3 0,6 0",
		// A sequence is one host's.
		"SELECT RLE('x' || n::VARCHAR) AS r, COUNT(*) AS n FROM series(2)":                                                       "host VARCHAR, r ENCODING, n BIGINT\n0 0a,0 0x1 x2,2 0\n0 0b,0 0x1 x2,2 0",
		"SELECT k, text(RLE(n::VARCHAR)) AS r, host FROM (SELECT n, n % 2 AS k FROM series(3) LIMIT 2) GROUP BY k ORDER BY r, k": "k BIGINT, r VARCHAR, host VARCHAR\n1 0,0 01,0 0a\n1 0,0 01,0 0b\n0 0,0 02,0 0a\n0 0,0 02,0 0b",
		"SET lateness = 2s": "\nlateness is 2s",
	} {
		if got, _ := answer(t, s, statement); got != want {
			t.Errorf("%s\n%s\nwant\n%s", statement, got, want)
		}
	}
	// Without ORDER BY of the whole, hosts' rows come as they arrive.
	for statement, want := range map[string][]string{
		"SELECT m FROM (SELECT n AS m FROM series(2) ORDER BY n)":                           {"host VARCHAR, m BIGINT", "0 0a,1 0", "0 0a,2 0", "0 0b,1 0", "0 0b,2 0"},
		"SELECT host, n FROM (SELECT n FROM series(3) ORDER BY n LIMIT 1) GROUP BY host, n": {"host VARCHAR, n BIGINT", "0 0a,1 0", "0 0b,1 0"},
	} {
		got, _ := answer(t, s, statement)
		lines := strings.Split(got, "\n")
		slices.Sort(lines[1:])
		if !slices.Equal(lines, want) {
			t.Errorf("%s\n%q", statement, lines)
		}
	}
	if got, sum := answer(t, s, "SELECT n FROM series(5000) LIMIT 1500"); strings.Count(got, "\n") != 1500 || sum.Rows != 1500 {
		t.Errorf("a limit of 1500 gives %d rows, the footer says %d", strings.Count(got, "\n"), sum.Rows)
	}
}

// What cannot be merged is refused, with the place.
func TestRefusals(t *testing.T) {
	s := open(t, fleet.New([]fleet.Host{{Name: "a", Engine: engine(t)}, {Name: "b", Engine: engine(t)}}))
	for statement, want := range map[string]string{
		"SELECT STDDEV(n), TOPK(n, 0) FROM series(3)":                                                                                                      "0)",
		"SELECT COUNT(*) FROM series(3) UNION ALL SELECT n FROM series(3)":                                                                                 "SELECT COUNT(*) FROM series(3) UNION",
		"SELECT n FROM series(3) UNION ALL SELECT n FROM (SELECT n FROM series(3) LIMIT 1)":                                                                "SELECT n FROM series(3) LIMIT 1",
		"SELECT n, COUNT(*) FROM series(3)":                                                                                                                "n,",
		"SELECT nope, COUNT(*) FROM series(3) GROUP BY nope":                                                                                               "nope\n",
		"SELECT COUNT(*) FROM SESSION(SAMPLE(cpu_usage, 1s), 1s) WHERE window_end > now()":                                                                 "window_end",
		"SELECT MAX(window_end) FROM SESSION(SAMPLE(cpu_usage, 1s), 1s)":                                                                                   "window_end",
		"SELECT COUNT(*) FROM SESSION(SAMPLE(cpu_usage, 1s), 1s) GROUP BY window_end + 1s":                                                                 "window_end",
		"SELECT DISTINCT COUNT(*) FROM SAMPLE(cpu_usage, 1s) EMIT CHANGES":                                                                                 "SELECT DISTINCT",
		"SELECT COUNT(*) FROM (SELECT COUNT(*) AS c FROM series(3)) EMIT EVERY 1s":                                                                         "EVERY",
		"SELECT LAST(c) FROM (SELECT COUNT(*) AS c FROM series(3) GROUP BY n)":                                                                             "LAST(c)",
		"SELECT c FROM (SELECT RLE(n::VARCHAR) AS c FROM series(3))":                                                                                       "SELECT RLE",
		"SELECT host, c FROM (SELECT COUNT(*) AS c FROM series(3))":                                                                                        "host, c",
		"SELECT MAX(c) FROM (SELECT window_end, COUNT(*) AS c FROM SESSION(SAMPLE(cpu_usage, 1s), 1s))":                                                    "SELECT window_end",
		"SELECT a.n FROM (SELECT window_end AS timestamp, COUNT(*) AS n FROM TUMBLE(SAMPLE(cpu_usage, 1s), 1s)) AS a ASOF JOIN SAMPLE(cpu_usage, 1s) AS b": "SELECT window_end",
		"SELEC":            "SELEC",
		"SET nonsense = 1": "nonsense",
	} {
		_, err := s.Execute(t.Context(), statement)
		var mistake *parser.Error
		if !errors.As(err, &mistake) || !strings.HasPrefix(mistake.Src[mistake.Pos.Start:]+"\n", want) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A user's stream is equivalent to its query: what is refused in the query is
// refused in the definition too, at every host.
func TestViewsHideNothing(t *testing.T) {
	one, other := engine(t), engine(t)
	define := func(e wire.Engine, statements ...string) {
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, statement := range statements {
			if _, err := s.Execute(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	define(one, "CREATE STREAM plain AS (SELECT n FROM series(2))", "CREATE STREAM differs AS (SELECT n FROM series(2))", "CREATE STREAM half_plain AS (SELECT n FROM series(2))",
		"CREATE STREAM groups AS (SELECT COUNT(*) AS n FROM series(2))", "CREATE STREAM inner_groups AS (SELECT n FROM groups)")
	define(other, "CREATE STREAM plain AS (SELECT n FROM series(2))", "CREATE STREAM differs AS (SELECT n FROM series(2) LIMIT 1)", "CREATE STREAM halfXplain AS (SELECT n FROM series(2) LIMIT 1)",
		"CREATE STREAM half_plain AS (SELECT n FROM series(2))", "CREATE STREAM groups AS (SELECT COUNT(*) AS n FROM series(2))", "CREATE STREAM inner_groups AS (SELECT n FROM groups)")
	s := open(t, fleet.New([]fleet.Host{{Name: "a", Engine: one}, {Name: "b", Engine: other}}))
	for statement, want := range map[string]string{
		"SELECT n FROM plain UNION ALL SELECT n FROM groups": "groups",
	} {
		_, err := s.Execute(t.Context(), statement)
		var mistake *parser.Error
		if !errors.As(err, &mistake) || mistake.Src != statement || !strings.HasPrefix(mistake.Src[mistake.Pos.Start:], want) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for statement, want := range map[string]string{
		"SELECT SUM(n) FROM plain":                                      "sum(n) BIGINT\n6 0",
		"SELECT SUM(n) FROM half_plain":                                 "sum(n) BIGINT\n6 0",
		"SELECT n FROM groups":                                          "n BIGINT\n4 0",
		"SELECT MAX(n) FROM groups AS g":                                "max(n) BIGINT\n4 0",
		"SELECT MAX(n) FROM (SELECT n FROM inner_groups)":               "max(n) BIGINT\n4 0",
		"SELECT host, n FROM groups GROUP BY host, n":                   "host VARCHAR, n BIGINT\n0 0a,2 0\n0 0b,2 0",
		"WITH groups AS (SELECT n FROM series(1)) SELECT n FROM groups": "host VARCHAR, n BIGINT\n0 0a,1 0\n0 0b,1 0",
	} {
		if got, _ := answer(t, s, statement); got != want {
			t.Errorf("%s\n%s\nwant\n%s", statement, got, want)
		}
	}
}

// TestOtherColumns: rows of hosts that do not have the same columns are not mixed.
func TestOtherColumns(t *testing.T) {
	one, other := engine(t), engine(t)
	for e, view := range map[wire.Engine]string{one: "SELECT n, n + 1 AS m FROM series(2)", other: "SELECT n FROM series(2)"} {
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Execute(t.Context(), "CREATE STREAM v AS ("+view+")"); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	s := open(t, fleet.New([]fleet.Host{{Name: "a", Engine: one}, {Name: "b", Engine: other}}))
	for _, statement := range []string{"SELECT * FROM v", "SELECT * FROM v ORDER BY n"} {
		r, err := s.Execute(t.Context(), statement)
		if err == nil {
			r.Close()
			t.Errorf("%s: is answered", statement)
		} else if !strings.Contains(err.Error(), "the columns of") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// links is a listener whose connections can be cut, as if the server were killed.
type links struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *links) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *links) cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// A host that is not there, or no more, is marked and not waited for.
func TestLostHosts(t *testing.T) {
	e := engine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := flight.New(e, flight.Options{})
	done := make(chan error, 1)
	links := &links{Listener: l}
	go func() { done <- f.Serve(links) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		f.Stop(ctx)
		<-done // with an error: its listener was closed
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	dial := func(addr string) wire.Engine {
		e, err := remote.Dial(addr, remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	s := open(t, fleet.New([]fleet.Host{{Name: "here", Engine: engine(t)}, {Name: "there", Engine: dial(l.Addr().String())}, {Name: "nowhere", Engine: dial("127.0.0.1:1")}}))
	got, sum := answer(t, s, "SELECT COUNT(*) FROM series(5)")
	if !strings.HasSuffix(got, "\n10 0") || len(sum.Notes) != 1 || !strings.HasPrefix(sum.Notes[0], "2 of 3 hosts (nowhere: ") {
		t.Errorf("%s, %v", got, sum.Notes)
	}
	r, err := s.Execute(t.Context(), "SELECT timestamp, percent_busy FROM SAMPLE(cpu_usage, 10ms)")
	if err != nil {
		t.Fatal(err)
	}
	var cut sync.Once
	rows, lost := map[string]int{}, false
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lost = lost || ev.Kind == wire.Notice && strings.HasPrefix(ev.Text, "there is lost, and the others go on: ")
		if ev.Batch != nil {
			rows[ev.Batch.Cols[0].Value(ev.Batch.Row(0)).S] += ev.Batch.Len()
			ev.Batch.Release()
			if rows["there"] > 0 {
				cut.Do(links.cut)
			}
		}
		if lost && rows["here"] > rows["there"] {
			r.Stop()
		}
	}
	if sum = r.Summary(); !strings.Contains(strings.Join(sum.Notes, " "), "1 of 3 hosts (there: ") {
		t.Errorf("rows are %v, the footer has %v", rows, sum.Notes)
	}
	if _, err := fleet.New([]fleet.Host{{Name: "nowhere", Engine: dial("127.0.0.1:1")}}).NewSession(t.Context(), wire.Options{}); err == nil {
		t.Error("no host is enough")
	}
}

// One engine with two addresses would count twice, and is refused.
func TestOneEngineTwice(t *testing.T) {
	e := engine(t)
	f := flight.New(e, flight.Options{})
	var hosts []fleet.Host
	served := make(chan error, 2)
	for _, name := range []string{"here", "there"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { served <- f.Serve(l) }()
		at, err := remote.Dial(l.Addr().String(), remote.Options{})
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, fleet.Host{Name: name, Engine: at})
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		f.Stop(ctx)
		for range hosts {
			<-served
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	both := fleet.New(hosts)
	s, err := both.NewSession(t.Context(), wire.Options{})
	if err == nil {
		s.Close()
	}
	if want := "error: here and there are the same engine, whose rows would count twice"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := both.Close(); err != nil {
		t.Error(err)
	}
}
