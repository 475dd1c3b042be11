package duckdbpeer

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// compare is BenchmarkGroup's over d.
func compare(b *testing.B, d *data) {
	db := load(b, d)
	alternate(b, rowCount, []engine[summary]{
		{"duckdb", func() (summary, error) { return theirs(db) }},
		{"ours", func() (summary, error) { return ours(b.Context(), d, true) }},
		{"ours-filter-later", func() (summary, error) { return ours(b.Context(), d, false) }},
	})
}

// engine runs a query and gives what its result is compared by.
type engine[R comparable] struct {
	name string
	run  func() (R, error)
}

// alternate reports the medians of b.N runs of the engines over so many rows, in
// million rows for each second of processor time and for each second that
// passed. The former counts what an engine does on threads beside its one
// (garbage collection), and does not count what other processes took.
func alternate[R comparable](b *testing.B, rows float64, engines []engine[R]) {
	costs := make([][]cost, len(engines))
	for b.Loop() {
		var want R
		for i, e := range engines {
			got, c := measure(b, e.run)
			costs[i] = append(costs[i], c)
			if i == 0 {
				want = got
			}
			if got != want {
				b.Fatalf("%s gives %+v, %s %+v", e.name, got, engines[0].name, want)
			}
		}
	}
	for i, e := range engines {
		m := median(costs[i])
		b.ReportMetric(rows/m.cpu.Seconds()/1e6, e.name+"-Mrows/cpu-s")
		b.ReportMetric(rows/m.wall.Seconds()/1e6, e.name+"-Mrows/s")
	}
	b.ReportMetric(0, "ns/op")
}

type cost struct{ cpu, wall time.Duration }

func measure[R any](b *testing.B, run func() (R, error)) (R, cost) {
	runtime.GC() // the garbage of the run before is not this one's
	start, used := time.Now(), processorTime(b)
	s, err := run()
	if err != nil {
		b.Fatal(err)
	}
	return s, cost{processorTime(b) - used, time.Since(start)}
}

// processorTime is what all threads of this process have used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(costs []cost) (m cost) {
	var cpu, wall []time.Duration
	for _, c := range costs {
		cpu, wall = append(cpu, c.cpu), append(wall, c.wall)
	}
	slices.Sort(cpu)
	slices.Sort(wall)
	return cost{cpu[len(cpu)/2], wall[len(wall)/2]}
}
