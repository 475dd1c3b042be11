package symbols

import (
	"testing"

	"endoscope/probes/testenv"
)

// BenchmarkUnwindRow is what it takes to find where the return address is,
// BenchmarkUnwindRule what it takes for all registers, in the middle of each of
// PostgreSQL's functions.
func BenchmarkUnwindRow(b *testing.B) {
	benchmarkRows(b, func(e *unwindEntry, pc uint64) bool { _, ok := e.row(pc); return ok })
}

func BenchmarkUnwindRule(b *testing.B) {
	benchmarkRows(b, func(e *unwindEntry, pc uint64) bool { _, ok := e.rule(pc); return ok })
}

func benchmarkRows(b *testing.B, look func(e *unwindEntry, pc uint64) bool) {
	table := tableOf(b, testenv.NeedProgram(b, "postgres"))
	known := 0
	for b.Loop() {
		for i := range table.entries {
			e := &table.entries[i]
			if look(e, (e.start+e.end)/2) {
				known++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(table.entries)), "ns/row")
	if known < b.N*len(table.entries)*9/10 {
		b.Errorf("%d rows of %d are known", known, b.N*len(table.entries))
	}
}
