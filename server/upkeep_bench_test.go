package server_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// BenchmarkBudgetUpkeep is what a query of the durations of all functions of redis-server WITHIN
// OVERHEAD costs by its own account, under redis-benchmark: attaching, and then probes and engine.
// The table is testdata/figures/budget-upkeep.md.
//
//	go test -run '^$' -bench BudgetUpkeep -benchtime 1x ./server
func BenchmarkBudgetUpkeep(b *testing.B) {
	testenv.NeedUprobes(b)
	said := regexp.MustCompile(`overhead (\S+) % .*\((\S+) % by probes, (\S+) % by the engine\): (\d+) functions were observed all the time, (\d+) in slices \((\d+) were taken\); attaching them took (\S+) s of CPU time before \((\S+) by probes\)`)
	for b.Loop() {
		var rows []string
		for _, percent := range []int{1, 5} {
			for range 2 {
				server := redisPair(b)[0]
				server.begin()
				s := newSession(b, server.options)
				ask(b, s, "SET max_text_copy = 1073741824")
				a := read(b, start(b, s, fmt.Sprintf("SELECT function_name, COUNT(*), AVG(duration) FROM function_duration WHERE %s GROUP BY function_name FOR 20s WITHIN OVERHEAD %d%%", server.functions, percent)))
				server.end()
				m := said.FindStringSubmatch(strings.Join(a.summary.Notes, "\n"))
				if m == nil {
					b.Fatalf("the footer says %q", a.summary.Notes)
				}
				rows = append(rows, fmt.Sprintf("| %d %% | %s %% | %s %% | %s %% | %s | %s | %s | %s s | %s s |", percent, m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]))
				b.Log(rows[len(rows)-1])
			}
		}
		writeTable(b, "budget-upkeep.md", "| allowed | overhead | by probes | by the engine | functions all the time | in slices | slices in 20 s | attaching before | by probes |", rows)
	}
}
