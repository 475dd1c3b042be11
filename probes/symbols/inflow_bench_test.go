package symbols

import (
	"sync"
	"testing"

	"endoscope/probes/testenv"
)

func BenchmarkInflowsPostgres(b *testing.B) { benchmarkInflows(b, "postgres") }
func BenchmarkInflowsRedis(b *testing.B)    { benchmarkInflows(b, "redis-server") }
func BenchmarkInflowsSQLite(b *testing.B)   { benchmarkInflows(b, "sqlite3") }

// benchmarkInflows measures the proof alone, once for each file.
func benchmarkInflows(b *testing.B, name string) {
	m := openModule(b, testenv.NeedProgram(b, name))
	m.entrances() // what sites need anyway
	for b.Loop() {
		m.flowed = sync.Once{}
		m.Inflows(0)
	}
	b.ReportMetric(float64(m.Len()), "functions")
	b.ReportMetric(float64(len(m.flows)), "inferred")
}
