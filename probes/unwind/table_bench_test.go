package unwind

import (
	"testing"

	"endoscope/probes/testenv"
)

// BenchmarkUnwindRow measures finding the return address, BenchmarkUnwindRule
// all registers, in the middle of each of PostgreSQL's functions.
func BenchmarkUnwindRow(b *testing.B) {
	benchmarkRows(b, func(e *Entry, pc uint64) bool { _, ok := e.Row(pc); return ok })
}

func BenchmarkUnwindRule(b *testing.B) {
	benchmarkRows(b, func(e *Entry, pc uint64) bool { _, ok := e.Rule(pc); return ok })
}

func benchmarkRows(b *testing.B, look func(e *Entry, pc uint64) bool) {
	table := tableOf(b, testenv.NeedProgram(b, "postgres"))
	known := 0
	for b.Loop() {
		for i := range table.Entries {
			e := &table.Entries[i]
			if look(e, (e.Start+e.End)/2) {
				known++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(table.Entries)), "ns/row")
	if known < b.N*len(table.Entries)*9/10 {
		b.Errorf("%d rows of %d are known", known, b.N*len(table.Entries))
	}
}
