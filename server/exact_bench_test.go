package server_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
)

// BenchmarkBudgetExact is what a query of the calls of all functions knows after 30 seconds WITHIN
// OVERHEAD: how many of the functions that were called are counted exactly, and how certain the
// counts of the others are that are called at least 1,000 times a second. The table is
// testdata/figures/budget-exact.md.
//
//	go test -run '^$' -bench BudgetExact -benchtime 1x ./server
func BenchmarkBudgetExact(b *testing.B) {
	testenv.NeedUprobes(b)
	const seconds, often = 30, 1000
	for b.Loop() {
		var rows []string
		for _, server := range []struct {
			name string
			load func(testing.TB) *loaded
		}{
			{"redis-server, get and set", loadedRedis},
			{"PostgreSQL, pgbench -S of one client", func(t testing.TB) *loaded { return loadedPostgres(t, "-S", 1) }},
			{"a server in Go", loadedGo},
		} {
			for _, percent := range []int{1, 5} {
				l := server.load(b)
				l.begin()
				s := newSession(b, l.options)
				ask(b, s, "SET max_text_copy = 1073741824")
				ask(b, s, "SET estimates = 'columns'")
				a := ask(b, s, fmt.Sprintf("SELECT function_name, exact(COUNT(*)), COUNT(*), low(COUNT(*)), high(COUNT(*)) FROM function_start WHERE %s GROUP BY function_name FOR %ds WITHIN OVERHEAD %d%%", l.functions, seconds, percent))
				l.end()
				exact, others := 0, 0
				var widths []float64
				for _, row := range a.rows {
					if row[1] == "true" {
						exact++
						continue
					}
					var of [3]float64 // the count, and its bounds
					var err [3]error
					for k := range of {
						of[k], err[k] = strconv.ParseFloat(row[2+k], 64)
					}
					if err[0] != nil || of[0] < seconds*often {
						continue
					}
					if others++; err[1] == nil && err[2] == nil {
						widths = append(widths, 100*(of[2]-of[1])/(of[2]+of[1]))
					}
				}
				slices.Sort(widths)
				median := "none"
				if len(widths) > 0 {
					median = fmt.Sprintf("%.2g %%", widths[len(widths)/2])
				}
				rows = append(rows, fmt.Sprintf("| %s | %d %% | %d | %d (%.0f %%) | %d | %d | %s |", server.name, percent, len(a.rows), exact, 100*float64(exact)/float64(max(len(a.rows), 1)), others, len(widths), median))
				b.Log(rows[len(rows)-1])
			}
		}
		writeTable(b, "budget-exact.md", "| server | allowed | functions called | exact | others of at least 1,000 calls a second | with an interval | median half width |", rows)
	}
}
