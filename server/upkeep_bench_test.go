package server_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// BenchmarkBudgetUpkeep is what a query of the durations of all functions of redis-server WITHIN
// OVERHEAD costs by its own account, under redis-benchmark and idle: attaching, and then probes and
// engine. The witness is the processor time of this process, which is the engine's, once the query
// has begun. The table is testdata/figures/budget-upkeep.md.
//
//	go test -run '^$' -bench BudgetUpkeep -benchtime 1x ./server
func BenchmarkBudgetUpkeep(b *testing.B) {
	testenv.NeedUprobes(b)
	said := regexp.MustCompile(`overhead (\S+) % .*\((\S+) % by probes, (\S+) % by attaching, (\S+) % for slices, (\S+) % by the engine's upkeep\): (\d+) functions were observed all the time, (\d+) in slices \((\d+) were taken\); it began after (\S+) s of attaching; preparing it took (\S+) s`)
	for b.Loop() {
		var rows []string
		for _, load := range []string{"redis-benchmark", "none"} {
			for _, percent := range []int{1, 1, 5, 5} {
				server := loadedRedis(b)
				if load != "none" {
					server.begin()
				}
				s := newSession(b, server.options)
				ask(b, s, "SET max_text_copy = 1073741824")
				q := start(b, s, fmt.Sprintf("SELECT function_name, COUNT(*), AVG(duration) FROM function_duration WHERE %s GROUP BY function_name FOR 20s WITHIN OVERHEAD %d%%", server.functions, percent))
				used, from := cpuTimeOf(os.Getpid()), time.Now()
				time.Sleep(15 * time.Second)
				upkeep := (cpuTimeOf(os.Getpid()) - used).Seconds() * 1e3 / time.Since(from).Seconds()
				a := read(b, q)
				server.end()
				m := said.FindStringSubmatch(strings.Join(a.summary.Notes, "\n"))
				if m == nil {
					b.Fatalf("the footer says %q", a.summary.Notes)
				}
				rows = append(rows, fmt.Sprintf("| %s | %d %% | %s %% | %s %% | %s %% | %s %% | %s %% | %.2f ms | %s | %s | %s | %s s | %s s |",
					load, percent, m[1], m[2], m[3], m[4], m[5], upkeep, m[6], m[7], m[8], m[9], m[10]))
				b.Log(rows[len(rows)-1])
			}
		}
		writeTable(b, "budget-upkeep.md", "| load | allowed | overhead | by probes | attaching | for slices | upkeep | processor time of the engine each second, once begun | functions all the time | in slices | slices in 20 s | begins after | preparing |", rows)
	}
}
