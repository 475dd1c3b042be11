package codesite

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

func benchmarkOpen(b *testing.B, name string) {
	path := testenv.NeedProgram(b, name)
	functions := 0
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		m, err := elf.Open(f, name)
		if err != nil {
			b.Fatal(err)
		}
		functions = m.Len()
		m.Close()
		f.Close()
	}
	b.ReportMetric(float64(functions)*float64(b.N)/b.Elapsed().Seconds(), "functions/s")
}

func BenchmarkOpenPostgres(b *testing.B) { benchmarkOpen(b, "postgres") }
func BenchmarkOpenNode(b *testing.B)     { benchmarkOpen(b, "node") }
func BenchmarkOpenGofmt(b *testing.B)    { benchmarkOpen(b, "gofmt") }

func BenchmarkEntrySitesPostgres(b *testing.B) { benchmarkSites(b, "postgres") }
func BenchmarkEntrySitesGofmt(b *testing.B)    { benchmarkSites(b, "gofmt") }

func benchmarkSites(b *testing.B, name string) {
	m := moduleAt(b, testenv.NeedProgram(b, name))
	n := m.Len()
	for b.Loop() {
		for i := range n {
			In(m).EntrySite(i)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "sites/s")
}

// BenchmarkSteppedSites counts the functions that have no cheap instruction, by what a query
// reads, in percent.
func BenchmarkSteppedSites(b *testing.B) {
	for _, program := range []string{"postgres", "redis-server", "gofmt", "/lib/x86_64-linux-gnu/libc.so.6"} {
		b.Run(filepath.Base(program), func(b *testing.B) {
			path := program
			if !filepath.IsAbs(path) {
				path = testenv.NeedProgram(b, program)
			}
			m := moduleAt(b, path)
			for b.Loop() {
				for unit, need := range map[string]Need{
					"count-%": {}, "arg0-%": {Args: true, Only: 1}, "arg0+arg1-%": {Args: true, Only: 3}, "arguments-%": {Args: true}} {
					methods, probed := methodsOf(m, need)
					b.ReportMetric(100*float64(methods[Stepped])/float64(probed), unit)
				}
			}
		})
	}
}

func BenchmarkNearest(b *testing.B) {
	m := moduleAt(b, testenv.NeedProgram(b, "postgres"))
	for b.Loop() {
		m.Nearest("ExecuterRun", 5)
	}
}

// The scan of the whole text, required before the first site is chosen.
func benchmarkEntrances(b *testing.B, path string) {
	m := moduleAt(b, path)
	bytes := uint64(0)
	for _, s := range m.Image().Exec {
		bytes += s.End - s.Start
	}
	b.SetBytes(int64(bytes))
	for b.Loop() {
		In(m).entrancesOnce = sync.Once{}
		In(m).entrances()
	}
	b.ReportMetric(float64(len(In(m).entranceList)), "entrances")
}

func BenchmarkEntrancesPostgres(b *testing.B) {
	benchmarkEntrances(b, testenv.NeedProgram(b, "postgres"))
}

func BenchmarkEntrancesNode(b *testing.B) { benchmarkEntrances(b, testenv.NeedProgram(b, "node")) }

func BenchmarkExitSitesPostgres(b *testing.B) { benchmarkExits(b, "postgres") }
func BenchmarkExitSitesGofmt(b *testing.B)    { benchmarkExits(b, "gofmt") }

func benchmarkExits(b *testing.B, name string) {
	m := moduleAt(b, testenv.NeedProgram(b, name))
	n := m.Len()
	for b.Loop() {
		for i := range n {
			In(m).ExitSites(i)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "functions/s")
}
