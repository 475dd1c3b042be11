package codesite

import (
	"testing"

	"endoscope/probes/testenv"
)

func BenchmarkInflowsPostgres(b *testing.B) { benchmarkInflows(b, "postgres") }
func BenchmarkInflowsRedis(b *testing.B)    { benchmarkInflows(b, "redis-server") }
func BenchmarkInflowsSQLite(b *testing.B)   { benchmarkInflows(b, "sqlite3") }

// benchmarkInflows measures the proof alone, once per file.
func benchmarkInflows(b *testing.B, name string) {
	m := moduleAt(b, testenv.NeedProgram(b, name))
	In(m).entrances() // needed for sites anyway
	n := 0
	for b.Loop() {
		In(m).flow = flow{}
		n = 0
		for i := range m.Len() {
			if In(m).CallSources(i) != nil {
				n++
			}
		}
	}
	b.ReportMetric(float64(m.Len()), "functions")
	b.ReportMetric(float64(n), "inferred")
}
