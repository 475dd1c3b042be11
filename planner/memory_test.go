//go:build !race

// The race detector allocates memory of its own.

package planner

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"endoscope/parser"
)

// TestMemory holds planning to planMemory times what parser.Memory says, which is what a
// daemon charges to its user.
func TestMemory(t *testing.T) {
	repeat := strings.Repeat
	numbered := func(n int, part string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, part, i)
		}
		return b.String()
	}
	nested := "ms FROM file('calls.csv')"
	for range 60 {
		nested = "ms + ms AS ms FROM (SELECT " + nested + ")"
	}
	for name, src := range map[string]string{
		"AND":                    "SELECT ms FROM file('calls.csv') WHERE ms=1" + repeat(" AND ms=1", 2400),
		"OR":                     "SELECT ms FROM file('calls.csv') WHERE ms=1" + repeat(" OR ms=1", 2400),
		"sum":                    "SELECT ms" + repeat("+ms", 4900) + " FROM file('calls.csv')",
		"columns":                "SELECT ms" + repeat(",ms", 1900) + " FROM file('calls.csv')",
		"GROUP BY":               "SELECT count(*) FROM TUMBLE(file('calls.csv'), 1s) GROUP BY ms" + repeat(",ms+1", 1000),
		"sums":                   "SELECT sum(ms)" + repeat(",sum(ms+1)", 1000) + " FROM TUMBLE(file('calls.csv'), 1s)",
		"ORDER BY":               "SELECT ms FROM TUMBLE(file('calls.csv'), 1s) ORDER BY ms" + repeat(",ms", 1000),
		"numbers":                "SELECT ms FROM file('calls.csv') WHERE ms IN (1" + repeat(",1234567", 100_000) + ")",
		"texts":                  "SELECT ms FROM file('calls.csv') WHERE name IN ('1'" + repeat(",'1234567'", 90_000) + ")",
		"functions":              "SELECT duration FROM function_duration WHERE function_name IN ('a'" + repeat(",'abcdefgh'", 40_000) + ")",
		"UNION":                  "SELECT ms FROM file('calls.csv')" + repeat(" UNION ALL SELECT ms FROM file('calls.csv')", 300),
		"JOIN":                   "SELECT a.ms FROM file('calls.csv') a" + numbered(60, " WINDOW JOIN file('calls.csv') b%d WITHIN 1s"),
		"CASE":                   "SELECT CASE " + repeat("WHEN ms=1 THEN 2 ", 1200) + "END FROM file('calls.csv')",
		"arguments":              "SELECT args.a" + numbered(1000, ",args.a%d") + " FROM function_duration WHERE function_name = 'x'",
		"text":                   "SELECT 'x" + repeat("y", 1_000_000) + "' FROM file('calls.csv')",
		"joined":                 "SELECT 'y'" + repeat("||'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'", 2000) + " FROM file('calls.csv')",
		"WITH":                   "WITH a0 AS (SELECT ms FROM file('calls.csv'))" + doubled(30) + " SELECT ms FROM a30",
		"nested":                 "SELECT " + nested,
		"functions of functions": "SELECT " + repeat("upper(", 150) + "'x'" + repeat(")", 150) + " FROM file('calls.csv')",
	} {
		t.Run(name, func(t *testing.T) {
			st, err := parser.Parse(src)
			if err != nil {
				t.Fatal(err)
			}
			env := testEnv()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = Plan(st.(*parser.Query), src, env)
			runtime.ReadMemStats(&after)
			if n, most := int64(after.TotalAlloc-before.TotalAlloc), parser.PlanMemory*parser.Memory(src); n > most {
				t.Errorf("%d bytes of text: %d bytes were allocated, expected at most %d (%.80v)", len(src), n, most, err)
			}
		})
	}
}

// doubled returns common table expressions that each read the one before twice.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", a%d AS (SELECT ms FROM a%d UNION ALL SELECT ms FROM a%d)", i+1, i, i)
	}
	return b.String()
}
