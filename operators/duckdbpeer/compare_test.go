package duckdbpeer

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// compare reports the medians of b.N runs of both engines, in million rows for
// each second of processor time and for each second that passed. The former
// counts what either engine does on threads beside its one (garbage
// collection), and does not count what other processes took.
func compare(b *testing.B, d *data) {
	db := load(b, d)
	engines := []struct {
		name string
		run  func() (summary, error)
		cost []cost
	}{
		{name: "duckdb", run: func() (summary, error) { return theirs(db) }},
		{name: "ours", run: func() (summary, error) { return ours(b.Context(), d, true) }},
		{name: "ours-filter-later", run: func() (summary, error) { return ours(b.Context(), d, false) }},
	}
	for b.Loop() {
		var want summary
		for i := range engines {
			e := &engines[i]
			got, c := measure(b, e.run)
			e.cost = append(e.cost, c)
			if want == (summary{}) {
				want = got
			}
			if got != want {
				b.Fatalf("%s gives %+v, DuckDB %+v", e.name, got, want)
			}
		}
	}
	for _, e := range engines {
		m := median(e.cost)
		b.ReportMetric(rowCount/m.cpu.Seconds()/1e6, e.name+"-Mrows/cpu-s")
		b.ReportMetric(rowCount/m.wall.Seconds()/1e6, e.name+"-Mrows/s")
	}
	b.ReportMetric(0, "ns/op")
}

type cost struct{ cpu, wall time.Duration }

func measure(b *testing.B, run func() (summary, error)) (summary, cost) {
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
