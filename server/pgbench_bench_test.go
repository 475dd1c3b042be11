package server_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

const (
	pgRounds  = 3
	pgSeconds = 2
	pgBatch   = 3000 // functions counted at a time to find those that are called
)

// BenchmarkPgbench is how many transactions a second one client of `pgbench -S`
// makes while the functions that it calls are counted: none of them, the half
// that is called least, and so on to all; probed at the cheapest instruction,
// and at the first (SET probe_sites). All points take turns; the figures are
// medians of the rounds.
//
//	go test -run '^$' -bench Pgbench -benchtime 1x -timeout 20m ./server
func BenchmarkPgbench(b *testing.B) {
	testenv.NeedUprobes(b)
	p := startPostgres(b, "log_statement=none")
	p.pgbench("-i", "-s", "1", "-q")
	s := newSession(b, wire.Options{Exe: p.exe})
	ask(b, s, "SET max_text_copy = 1073741824")
	called := calledFunctions(b, p, s)
	for b.Loop() {
		pgbenchTable(b, p, s, called)
	}
}

// calledFunctions are the functions that transactions of pgbench -S call, the
// one that is called least first. They are looked for in batches, so that the
// server does not stand still.
func calledFunctions(b *testing.B, p *postgres, s wire.Session) []string {
	var names []string
	seen := map[string]bool{}
	for _, row := range ask(b, s, "SHOW FUNCTIONS").rows {
		if !seen[row[0]] {
			seen[row[0]] = true
			names = append(names, row[0])
		}
	}
	calls := map[string]int64{}
	for batch := range slices.Chunk(names, pgBatch) {
		q := start(b, s, countCalls(batch))
		p.pgbench("-S", "-n", "-t", "1000")
		a := ask(b, s, "SELECT function_name, hits FROM sys.probes WHERE hits > 0")
		for i, row := range a.rows {
			calls[row[0]] += number(b, a, i, 1)
		}
		q.Stop()
		read(b, q)
		q.Close()
	}
	called := slices.Collect(maps.Keys(calls))
	slices.SortFunc(called, func(x, y string) int { return cmp.Or(cmp.Compare(calls[x], calls[y]), strings.Compare(x, y)) })
	return called
}

// countCalls is a query that counts the calls of functions.
func countCalls(names []string) string {
	var list strings.Builder
	for i, n := range names {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString("'" + strings.ReplaceAll(n, "'", "''") + "'")
	}
	return "SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN (" + list.String() + ") GROUP BY function_name"
}

var pgRate = regexp.MustCompile(`tps = ([0-9.]+) \(without`)

// tps is how many transactions a second pgbench -S makes.
func (p *postgres) tps(seconds int) float64 {
	out := p.pgbench("-S", "-n", "-c", "1", "-T", strconv.Itoa(seconds))
	m := pgRate.FindStringSubmatch(out)
	if m == nil {
		p.t.Fatalf("pgbench said %q", out)
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

// pgPoint is a share of the functions, probed at sites of a kind.
type pgPoint struct {
	percent int
	sites   string
}

func pgbenchTable(b *testing.B, p *postgres, s wire.Session, called []string) {
	points := []pgPoint{{0, ""}}
	for _, percent := range []int{50, 60, 70, 80, 100} {
		points = append(points, pgPoint{percent, "cheapest"}, pgPoint{percent, "entry"})
	}
	rates := map[pgPoint][]float64{}
	for range pgRounds {
		for _, pt := range points {
			if pt.percent == 0 {
				rates[pt] = append(rates[pt], p.tps(pgSeconds))
				continue
			}
			ask(b, s, "SET probe_sites = '"+pt.sites+"'")
			q := start(b, s, countCalls(called[:len(called)*pt.percent/100]))
			rates[pt] = append(rates[pt], p.tps(pgSeconds))
			q.Stop()
			for _, l := range read(b, q).summary.Losses {
				b.Logf("%d %% at %s: lost %d: %s", pt.percent, pt.sites, l.N, l.Cause)
			}
			q.Close()
			time.Sleep(100 * time.Millisecond) // detaching is over
		}
	}
	median := func(pt pgPoint) float64 {
		v := slices.Sorted(slices.Values(rates[pt]))
		return v[len(v)/2]
	}
	none := median(pgPoint{})
	fmt.Printf("\npgbench -S calls %d functions of PostgreSQL; without probes %.0f transactions/s\n", len(called), none)
	fmt.Println("counted     cheapest sites       first instructions")
	for _, percent := range []int{50, 60, 70, 80, 100} {
		cheap, entry := median(pgPoint{percent, "cheapest"}), median(pgPoint{percent, "entry"})
		fmt.Printf("%5d %%  %8.0f (%3.0f %%)  %8.0f (%3.0f %%)\n", percent, cheap, 100*cheap/none, entry, 100*entry/none)
		b.ReportMetric(cheap/none, fmt.Sprintf("of-none-%d-cheapest", percent))
		b.ReportMetric(entry/none, fmt.Sprintf("of-none-%d-entry", percent))
	}
	b.ReportMetric(none, "tps-none")
}
