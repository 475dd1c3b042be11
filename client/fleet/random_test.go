package fleet_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"endoscope/planner/plan"
)

// calls are calls of each aggregate of the language that several hosts compute together.
var calls = map[string][]string{
	"count":           {"COUNT(*)", "COUNT(x)", "COUNT(DISTINCT n)", "COUNT(DISTINCT s)", "COUNT(DISTINCT x)", "COUNT(DISTINCT n > 20)"},
	"sum":             {"SUM(n)", "SUM(x)", "SUM(d)"},
	"avg":             {"AVG(n)", "AVG(x)", "AVG(d)"},
	"min":             {"MIN(n)", "MIN(x)", "MIN(s)", "MIN(d)", "MIN(timestamp)"},
	"max":             {"MAX(n)", "MAX(x)", "MAX(s)", "MAX(d)"},
	"stddev":          {"STDDEV(n)", "STDDEV(x)", "STDDEV(d)"},
	"variance":        {"VARIANCE(n)", "VARIANCE(x)", "VARIANCE(d)"},
	"quantile":        {"QUANTILE(n, 0.9)", "QUANTILE(x, 0.25)", "QUANTILE(d, 0.5)"},
	"percentile_cont": {"PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n)", "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY d)"},
	"median":          {"MEDIAN(n)", "MEDIAN(x)", "MEDIAN(d)"},
	"histogram":       {"HISTOGRAM(n)", "HISTOGRAM(x, 0, 9, 2.5)", "HISTOGRAM(d)"},
	"topk":            {"TOPK(s, 2)", "TOPK(n, 3)", "TOPK(x, 2)"},
	"first":           {"FIRST(n)", "FIRST(s)", "FIRST(x)", "FIRST(n > 3)"},
	"last":            {"LAST(n)", "LAST(s)", "LAST(x)", "LAST(timestamp)"},
	"rate":            {"RATE(*)"},
}

// Each aggregate is among calls.
func TestCallsAreOfEachAggregate(t *testing.T) {
	for _, f := range plan.AggFuncs {
		if len(calls[f.Name]) == 0 {
			t.Errorf("%s is not tested", f.Name)
		}
	}
}

// draw returns a query over the stream rows whose result does not depend on how
// the rows are divided.
func draw(rt *rapid.T) string {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	from := pick("from", "rows", "rows", "TUMBLE(rows, 3s)", "HOP(rows, 2s, 4s)", "SESSION(rows, 1s)", "SESSION(rows, 1500ms PARTITION BY s)",
		"(SELECT timestamp, n, x, s, d FROM rows WHERE n > 5)", "(SELECT * FROM rows ORDER BY timestamp LIMIT 20)", "(SELECT DISTINCT timestamp, n, x, s, d FROM rows)")
	windowed := strings.Contains(from, "SESSION") || strings.Contains(from, "(rows, ")
	var keys, items []string
	for _, k := range []string{"s", "n % 3"} {
		if rapid.Bool().Draw(rt, "key") {
			keys = append(keys, k)
		}
	}
	if windowed {
		keys = append(keys, "window_start", "window_end")
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range calls {
			if !yield(name) {
				return
			}
		}
	})
	for i, k := range keys {
		items = append(items, fmt.Sprintf("%s AS k%d", k, i))
	}
	arrival := strings.Contains(from, "LIMIT") || strings.Contains(from, "DISTINCT")
	for i := range rapid.IntRange(1, 3).Draw(rt, "aggregates") {
		name := pick("aggregate", names...)
		if name == "rate" && !windowed || arrival && (name == "first" || name == "last") {
			name = "count"
		}
		call := pick("call", calls[name]...)
		if rapid.IntRange(0, 3).Draw(rt, "filtered") == 0 {
			call += " FILTER (WHERE " + pick("filter", "n > 20", "s <> 'e'", "x IS NOT NULL") + ")"
		}
		items = append(items, fmt.Sprintf("%s AS a%d", call, i))
	}
	text := "SELECT " + strings.Join(items, ", ") + " FROM " + from
	if rapid.Bool().Draw(rt, "where") {
		text += " WHERE " + pick("condition", "n > 20", "x > 1", "s > 'b' AND n > 0")
	}
	if len(keys) > 0 {
		text += " GROUP BY " + strings.Join(keys, ", ")
	}
	if rapid.Bool().Draw(rt, "having") {
		text += " HAVING " + pick("of groups", "COUNT(*) > 2", "MAX(n) > 30 OR COUNT(x) = 1", "SUM(x) > 3")
	}
	if len(keys) > 0 && rapid.Bool().Draw(rt, "order") {
		text += " ORDER BY "
		for i := range keys {
			text += fmt.Sprintf("k%d%s, ", i, pick("direction", "", " DESC"))
		}
		text = strings.TrimSuffix(text, ", ")
		if rapid.Bool().Draw(rt, "limit") {
			text += " LIMIT 2"
		}
	} else if len(keys) > 0 && !windowed && !arrival && rapid.IntRange(0, 2).Draw(rt, "outer") == 0 {
		text = "SELECT COUNT(*), MAX(k0), COUNT(DISTINCT a0 IS NULL) FROM (" + text + ")"
	}
	return text
}

// TestRandomQueriesGiveTheSame: the result of several hosts equals exactly that of
// one engine with all rows.
func TestRandomQueriesGiveTheSame(t *testing.T) {
	d := newDivided(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		now, statement, later := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), draw(rt), []int{1, 10, 400, 999, 1000, 1499, 2000}
		if !strings.Contains(statement, "LIMIT 20") { // else it would be of any of those at one time
			later = append(later, 0)
		}
		var rows []string
		var hosts []int
		for i := range rapid.IntRange(3, 80).Draw(rt, "rows") {
			now = now.Add(time.Duration(rapid.SampledFrom(later).Draw(rt, "later")) * time.Millisecond)
			x := fmt.Sprint(math.Ldexp(float64(rapid.IntRange(-1<<20, 1<<20).Draw(rt, "x")), rapid.IntRange(-40, 20).Draw(rt, "exponent")))
			if rapid.IntRange(0, 4).Draw(rt, "null") == 0 {
				x = ""
			}
			rows = append(rows, fmt.Sprintf("%s,%d,%s,%s", now.Format("2006-01-02T15:04:05.000Z"),
				rapid.IntRange(-9, 99).Draw(rt, "n"), x, rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "s")))
			host := i // each has a row: without one it does not know that there is a timestamp
			if i > 2 {
				host = rapid.IntRange(0, 2).Draw(rt, "host")
			}
			hosts = append(hosts, host)
		}
		d.divide(t, "timestamp,n,x,s", rows, func(row int) int { return hosts[row] })
		d.compare(t, rt, statement, rows, hosts)
	})
}
