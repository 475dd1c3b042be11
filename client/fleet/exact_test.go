package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/client/fleet"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// divided is a stream, rows, of which several hosts have a part each, and one engine all.
type divided struct {
	all, one wire.Session
	each     []wire.Session // of the hosts
	dir      string
}

func newDivided(t *testing.T, hosts int) *divided {
	d := &divided{dir: t.TempDir()}
	var members []fleet.Host
	for i := range hosts {
		e := engine(t)
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		d.each, members = append(d.each, s), append(members, fleet.Host{Name: string(rune('a' + i)), Engine: e})
	}
	d.all, d.one = open(t, fleet.New(members)), open(t, engine(t))
	return d
}

// divide distributes rows over the hosts: of returns the host of a row.
func (d *divided) divide(t testing.TB, header string, rows []string, of func(row int) int) {
	t.Helper()
	files := make([]strings.Builder, len(d.each)+1)
	for i := range files {
		files[i].WriteString(header + "\n")
	}
	for i, row := range rows {
		files[of(i)].WriteString(row + "\n")
		files[len(d.each)].WriteString(row + "\n")
	}
	for i, s := range append(slices.Clone(d.each), d.one) {
		path := filepath.Join(d.dir, strconv.Itoa(i)+".csv")
		if err := os.WriteFile(path, []byte(files[i].String()), 0o600); err != nil {
			t.Fatal(err)
		}
		// A host without a row cannot determine the types of rows.
		if _, err := s.Execute(t.Context(), "CREATE OR REPLACE STREAM rows AS (SELECT timestamp, n::BIGINT AS n, x::DOUBLE AS x, s::VARCHAR AS s, n::BIGINT * 1ns AS d FROM file('"+path+"'))"); err != nil {
			t.Fatal(err)
		}
	}
}

// cells are the rows of a result.
func cells(t testing.TB, s wire.Session, statement string) (rows [][]types.Value) {
	return noted(t, s, statement, nil)
}

// noted returns the rows of a result, and the remarks of its footer.
func noted(t testing.TB, s wire.Session, statement string, notes *[]string) (rows [][]types.Value) {
	t.Helper()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = r.Close() }()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			if notes != nil {
				*notes = r.Summary().Notes
			}
			return rows
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		rows = append(rows, rowsOf(ev)...)
	}
}

func rowText(row []types.Value) string {
	var out []string
	for _, v := range row {
		switch {
		case v.IsNull:
			out = append(out, "NULL")
		case v.Type == types.Double:
			out = append(out, strconv.FormatFloat(v.F, 'g', -1, 64))
		case v.A != nil:
			out = append(out, fmt.Sprint(v.A))
		case v.S != "":
			out = append(out, v.S)
		default:
			out = append(out, strconv.FormatInt(v.I, 10))
		}
	}
	return strings.Join(out, " ")
}

// equal compares results, to the last digit.
func equal(a, b [][]types.Value) bool {
	return slices.EqualFunc(a, b, func(x, y []types.Value) bool { return rowText(x) == rowText(y) })
}

func texts(rows [][]types.Value) string {
	var out []string
	for _, r := range rows {
		out = append(out, rowText(r))
	}
	return strings.Join(out, "\n")
}

// exact are statements whose result over several hosts equals that of one engine
// with all rows.
var exact = []string{
	"SELECT STDDEV(n), VARIANCE(n), STDDEV(d), STDDEV(x), VARIANCE(x), COUNT(*) FROM rows",
	"SELECT s, STDDEV(n) AS dev, STDDEV(x) FILTER (WHERE n > 20), VARIANCE(d) FROM rows GROUP BY s HAVING COUNT(*) > 2 ORDER BY s",
	"SELECT HISTOGRAM(n), HISTOGRAM(x), HISTOGRAM(d), HISTOGRAM(n, 0, 50, 7), HISTOGRAM(x, 0, 9, 2.5) FROM rows",
	"SELECT n % 3 AS k, HISTOGRAM(d) FILTER (WHERE s <> 'a') AS h FROM rows GROUP BY k ORDER BY k",
	"SELECT TOPK(s, 3), TOPK(s, 1), TOPK(length(s) + 1, 1) FROM rows",
	"SELECT FIRST(n), LAST(n), FIRST(s), LAST(s), LAST(x), FIRST(x) FILTER (WHERE n > 30), LAST(d), FIRST(n > 3), LAST(timestamp) FROM rows",
	"SELECT s, FIRST(n) + LAST(n) AS sum, LAST(x) FROM rows GROUP BY s ORDER BY s",
	"SELECT s, n, COUNT(*) FROM rows GROUP BY s ORDER BY s",
	"SELECT COUNT(DISTINCT n), COUNT(DISTINCT s), COUNT(DISTINCT n % 5) FILTER (WHERE x > 1), SUM(n), MEDIAN(n), LAST(n), STDDEV(n) FROM rows",
	"SELECT s, COUNT(DISTINCT n), COUNT(DISTINCT x) FROM rows GROUP BY s ORDER BY s DESC LIMIT 2",
	"SELECT window_start, window_end, STDDEV(n), HISTOGRAM(n, 0, 100, 10), FIRST(s), LAST(n) FROM TUMBLE(rows, 3s)",
	"SELECT window_end, s, STDDEV(x), LAST(n) FROM HOP(rows, 2s, 4s) GROUP BY s ORDER BY s",
	"SELECT window_start, window_end, COUNT(*), SUM(n), FIRST(n), LAST(s), STDDEV(n), RATE(*) FROM SESSION(rows, 700ms)",
	"SELECT window_start, COUNT(*) FILTER (WHERE n > 50), COUNT(DISTINCT s) FILTER (WHERE x > 5), FIRST(n) FROM SESSION(rows, 1s) WHERE x > 1",
	"SELECT window_end - window_start AS long, s, MEDIAN(n), COUNT(*) FROM SESSION(rows, 1s) WHERE n > 20 AND x > 1 GROUP BY s ORDER BY s",
	"SELECT s, window_start, COUNT(*), LAST(n), COUNT(DISTINCT n) FROM SESSION(rows, 1500ms PARTITION BY s) GROUP BY s, window_start HAVING COUNT(*) > 1 ORDER BY s",
	"SELECT window_start, COUNT(*) FROM SESSION(rows, 1s PARTITION BY s, n % 2) AS r WHERE r.n > 3 ORDER BY 2",
	"SELECT MAX(c), MIN(c), COUNT(*) FROM (SELECT s, COUNT(*) AS c FROM rows GROUP BY s)",
	"WITH g AS (SELECT n % 4 AS k, AVG(d) AS mean, STDDEV(n) AS dev FROM rows GROUP BY k) SELECT k + 1, g.mean, dev FROM g WHERE dev > 1 ORDER BY k DESC LIMIT 2",
	"SELECT SUM(c) FROM (SELECT k, COUNT(*) AS c FROM (SELECT DISTINCT s, n % 5 AS k FROM rows WHERE n > 3) AS x GROUP BY k HAVING COUNT(*) > 1)",
	"SELECT e, c * 2 AS twice FROM (SELECT window_end AS e, COUNT(*) AS c FROM TUMBLE(rows, 3s)) WHERE c > 1",
	"SELECT MAX(c), AVG(c) FROM (SELECT window_end, s, COUNT(*) AS c FROM TUMBLE(rows, 3s) GROUP BY s)",
	"SELECT s, c FROM (SELECT s, COUNT(*) AS c FROM SESSION(rows, 1s) GROUP BY s) AS x WHERE c > 1",
	"SELECT AVG(n) FROM (SELECT n FROM rows ORDER BY timestamp LIMIT 7)",
	"SELECT window_start, s, COUNT(*) FROM SESSION(rows, 1s PARTITION BY s) WHERE (s = 'd' OR s > 'd') AND n > 10 GROUP BY s",
	"SELECT DISTINCT s FROM rows WHERE n > 20",
	"SELECT DISTINCT s, n % 2 FROM rows ORDER BY 2, s DESC LIMIT 3",
	"SELECT DISTINCT window_end, s FROM TUMBLE(rows, 3s)",
	"SELECT DISTINCT s FROM TUMBLE(rows, 3s) ORDER BY s LIMIT 2",
	"SELECT window_start, n % 2 AS k, AVG(x) FROM SESSION(rows, 2s) GROUP BY n % 2, window_start, window_end ORDER BY k",
}

// ofRows are statements of which the rows of all hosts are those of one engine, but for
// the first column, the host.
var ofRows = []string{
	"SELECT n, timestamp FROM TUMBLE(rows, 3s) ORDER BY n, timestamp LIMIT 2",
	"SELECT n, s FROM TUMBLE(rows, 2s) WHERE n > 3 ORDER BY length(s) - n, timestamp",
	"SELECT n, s FROM rows ORDER BY timestamp DESC LIMIT 5",
}

// The result does not depend on how rows are divided over hosts.
func TestDividedRowsGiveTheSame(t *testing.T) {
	d := newDivided(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		// The letters have different frequencies, so that TOPK does not depend on the
		// order of arrival.
		var letters []string
		for i := range 5 {
			letters = append(letters, slices.Repeat([]string{string(rune('a' + i))}, 2*i*i+1)...)
		}
		letters = rapid.Permutation(letters).Draw(rt, "s")
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var rows []string
		var hosts []int
		for _, s := range letters {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 10, 400, 700, 999, 1000, 1499, 2000}).Draw(rt, "later")) * time.Millisecond)
			rows = append(rows, fmt.Sprintf("%s,%d,%g,%s", now.Format("2006-01-02T15:04:05.000Z"),
				rapid.IntRange(-9, 99).Draw(rt, "n"), float64(rapid.IntRange(-4, 40).Draw(rt, "x"))/4, s))
			hosts = append(hosts, rapid.IntRange(0, 2).Draw(rt, "host"))
		}
		d.divide(t, "timestamp,n,x,s", rows, func(row int) int { return hosts[row] })
		d.compare(t, rt, rapid.SampledFrom(slices.Concat(exact, ofRows)).Draw(rt, "statement"), rows, hosts)
	})
}

// compare compares the result of a statement over the parts with its result over
// all rows.
func (d *divided) compare(t *testing.T, rt *rapid.T, statement string, rows []string, hosts []int) {
	want, got := cells(t, d.one, statement), cells(t, d.all, statement)
	if slices.Contains(ofRows, statement) {
		for i := range got {
			got[i] = got[i][1:]
		}
	}
	if !ordered(statement) {
		byText := func(a, b []types.Value) int { return strings.Compare(rowText(a), rowText(b)) }
		slices.SortFunc(want, byText)
		slices.SortFunc(got, byText)
	}
	if !equal(want, got) {
		rt.Fatalf("%s\nof one\n%s\nof several\n%s\nrows\n%s\nhosts %v", statement, texts(want), texts(got), strings.Join(rows, "\n"), hosts)
	}
}

// ordered reports whether a statement gives its rows an order; WITHIN GROUP (ORDER BY x) does not.
func ordered(statement string) bool {
	return strings.Contains(strings.ReplaceAll(statement, "(ORDER BY", ""), "ORDER BY")
}

// sorted are rows as text, in an order of their own unless the statement has one.
func sorted(rows [][]types.Value, statement string) string {
	if !ordered(statement) {
		slices.SortFunc(rows, func(a, b []types.Value) int { return strings.Compare(rowText(a), rowText(b)) })
	}
	return texts(rows)
}
