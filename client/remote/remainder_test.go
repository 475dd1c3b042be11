package remote

import (
	"strings"
	"testing"
	"time"

	"endoscope/parser"
)

// After a lost connection the remainder of the statement is executed.
func TestRemainder(t *testing.T) {
	for _, c := range []struct {
		statement string
		rows      uint64
		ran       time.Duration
		want      string // "=": the same; "done"; or part of the error
	}{
		{"SELECT * FROM cpu_usage", 5, time.Minute, "="},
		{"SELECT * FROM cpu_usage LIMIT 6", 4, 0, "SELECT * FROM cpu_usage LIMIT 2"},
		{"SELECT * FROM cpu_usage LIMIT 6", 6, 0, "done"},
		{"SELECT * FROM cpu_usage FOR 10s", 4, 4 * time.Second, "SELECT * FROM cpu_usage FOR 6000000us"},
		{"SELECT * FROM cpu_usage LIMIT 10 FOR 10s;", 1, 9 * time.Second, "SELECT * FROM cpu_usage LIMIT 9 FOR 1000000us;"},
		{"SELECT * FROM cpu_usage FOR 10s", 4, 10 * time.Second, "FOR 10s, has passed"},
		{"EXPLAIN ANALYZE SELECT * FROM cpu_usage LIMIT 9 FOR 2s", 0, time.Second, "EXPLAIN ANALYZE SELECT * FROM cpu_usage LIMIT 9 FOR 1000000us"},
		{"SELECT * FROM series(9)", 0, 0, "="},
		{"SELECT * FROM series(9)", 1, 0, "first rows again"},
		{"SELECT * FROM series(9) LIMIT 2", 2, 0, "done"},
		{"SELECT * FROM file('a.csv')", 1, 0, "first rows again"},
		{"SELECT timestamp FROM cpu_usage UNION ALL SELECT n FROM series(3)", 1, 0, "first rows again"},
		{"SELECT * FROM cpu_usage a JOIN file('a.csv') b ON a.x = b.y", 1, 0, "="},
		{"SELECT * FROM (SELECT * FROM cpu_usage) x", 1, 0, "="},
		{"SELECT * FROM (SELECT * FROM cpu_usage LIMIT 3) x", 1, 0, "first rows again"},
		{"WITH cpu_usage AS (SELECT n FROM series(3)) SELECT * FROM cpu_usage", 1, 0, "first rows again"},
		{"SHOW STREAMS", 0, 0, "="},
		{"SHOW STREAMS", 1, 0, "first rows again"},
	} {
		parsed, err := parser.Parse(c.statement)
		if err != nil {
			t.Fatal(err)
		}
		rest, done, err := remainder(parsed, c.statement, c.rows, c.ran)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s after %d rows: %v", c.statement, c.rows, err)
			}
		case done:
			if c.want != "done" {
				t.Errorf("%s after %d rows is done", c.statement, c.rows)
			}
		case c.want == "=" && rest != c.statement, c.want != "=" && rest != c.want:
			t.Errorf("%s after %d rows and %v: %s", c.statement, c.rows, c.ran, rest)
		}
	}
}
