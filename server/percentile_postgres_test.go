package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"endoscope/server/wire"
)

// Percentiles, intervals, LIMIT and OFFSET have the results that PostgreSQL has.
func TestStatementsEqualPostgres(t *testing.T) {
	p := startPostgres(t)
	path := filepath.Join(t.TempDir(), "rows.csv")
	lines, rows := []string{"k,x,y"}, []string{}
	for i := range 997 {
		k, x, y := i*i%5, (i*7919)%1009-300, float64(i*31%211)/8
		lines = append(lines, fmt.Sprintf("%d,%d,%v", k, x, y))
		rows = append(rows, fmt.Sprintf("(%d,%d,%v)", k, x, y))
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := fmt.Sprintf("(VALUES %s) AS r(k,x,y)", strings.Join(rows, ","))
	ours := fmt.Sprintf("file('%s') AS r", path)
	s := newSession(t, wire.Options{})
	var percentiles []string
	for _, fn := range []string{"percentile_cont", "percentile_disc"} {
		for _, q := range []string{"0", "0.0625", "0.25", "0.5", "0.9", "0.99", "0.999", "1"} {
			for _, x := range []string{"x", "y"} {
				percentiles = append(percentiles, fmt.Sprintf("%s(%s) WITHIN GROUP (ORDER BY %s)", fn, q, x))
			}
		}
	}
	all := strings.Join(percentiles, ", ")
	for _, statement := range []string{
		"SELECT " + all + " FROM rows",
		"SELECT k, " + all + " FROM rows GROUP BY k ORDER BY k",
		"SELECT k, " + all + " FROM rows WHERE x < -270 GROUP BY k ORDER BY k DESC",
		"SELECT k, percentile_cont(0.3) WITHIN GROUP (ORDER BY x) FILTER (WHERE y < 3) FROM rows GROUP BY k ORDER BY k LIMIT 2 OFFSET 1",
		"SELECT x FROM rows ORDER BY x LIMIT 7 OFFSET 5",
		"SELECT x, y FROM rows ORDER BY y DESC, x LIMIT 100 OFFSET 950",
		"SELECT x FROM rows ORDER BY x LIMIT 3 OFFSET 997",
		"SELECT x FROM rows ORDER BY x LIMIT 0 OFFSET 3",
		"SELECT k, COUNT(*) FROM (SELECT k FROM rows ORDER BY x LIMIT 40 OFFSET 10) AS part GROUP BY k ORDER BY 2, 1 LIMIT 3 OFFSET 1",
	} {
		want := p.run("psql", "-h", p.dir, "-p", strconv.Itoa(p.port), "-d", "bench", "-AtF,", "-c", strings.Replace(statement, "rows", theirs, 1))
		var got strings.Builder
		for _, row := range read(t, start(t, s, strings.Replace(statement, "rows", ours, 1))).rows {
			fmt.Fprintln(&got, strings.Join(row, ","))
		}
		if got.String() != want {
			t.Errorf("%s:\n%s\nPostgreSQL has\n%s", statement, got.String(), want)
		}
	}
}
