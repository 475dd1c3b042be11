package procfs

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
	"endoscope/probes/testenv"

	"golang.org/x/sys/unix"
)

// alone is a program with one thread, which waits.
const alone = `#include <stdio.h>
int main(void) { puts("ready"); fflush(stdout); return getchar(); }`

// TestGatedSampler opens a sampler's gate for a time in the middle: there are
// rows of that time only, but watermarks of all of it.
func TestGatedSampler(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		way          plan.GateWay
		rates        bool
		late         bool // rates come a rate window later
	}{
		{"paused", "memory_usage", plan.Paused, false, false},
		{"resting", "cpu_usage", plan.Resting, true, false},
		{"asleep", "memory_usage", plan.Asleep, false, false},
		{"rates asleep", "cpu_usage", plan.Asleep, true, true},
		{"files kept open", "thread_usage", plan.Asleep, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const every, window = 5 * time.Millisecond, 20 * time.Millisecond
			spec := sampleOf(c.stream)
			spec.Every, spec.Settings.RateWindow = every, window
			if c.stream == "thread_usage" {
				spec.Target.PIDs = []int{converse(t, testenv.CompileCText(t, alone)).cmd.Process.Pid}
			}
			testenv.Once(t, func() error { // a sampler without a processor has no rows
				src, err := New().Prepare(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				if a := src.Info().Ability; a.Gate != plan.Paused || (a.Lag > 0) != c.rates || a.Opens {
					t.Errorf("it says that it can do %+v", a)
				}
				set, err := gate.NewSet(1, false)
				if err != nil {
					t.Fatal(err)
				}
				g := set.Gate(0)
				r := newRecorder(t, spec.Out)
				if err := src.Start(t.Context(), r, probes.Options{Gates: probes.Gates{Set: set, Own: g, Way: c.way}}); err != nil {
					t.Fatal(err)
				}
				testenv.Until(t, "there are watermarks while the gate is shut", func() bool { return r.marked(0) })
				from := clock.Now()
				to := from + 1e9 // long enough for rows on a busy machine
				g.Open(from, to)
				testenv.Until(t, "there are watermarks after it is shut again", func() bool { return r.marked(to) })
				if err := src.Stop(); err != nil {
					t.Fatal(err)
				}
				<-r.ended
				r.mu.Lock()
				defer r.mu.Unlock()
				first := from
				if c.late {
					first += int64(window)
				}
				for _, row := range r.rows {
					if at := row[spec.Out.Time].I; at < first || at > to {
						t.Errorf("a row %v after the gate opened", time.Duration(at-from))
					}
				}
				// The machine is shared: samples may be missed, and then are counted.
				const n = 1000 / 5
				if len(r.rows) == 0 || len(r.rows)+int(r.lost[overrun]) < n/2 {
					return fmt.Errorf("%d rows in %d ticks, lost %v", len(r.rows), n, r.lost)
				}
				if len(r.rows) > n+1 {
					t.Errorf("%d rows in %d ticks", len(r.rows), n)
				}
				marks := func(from, to int64) int {
					n := 0
					for _, m := range r.watermarks {
						if m >= from && m < to {
							n++
						}
					}
					return n
				}
				if marks(0, from) == 0 || marks(to, math.MaxInt64) == 0 {
					t.Errorf("while the gate was shut watermarks were %v", r.watermarks)
				}
				if a := src.Stats().Activity; a.Shut == 0 || a.Shut >= a.Events || a.Events-a.Shut > 201 {
					t.Errorf("%d ticks, %d of them shut", a.Events, a.Shut)
				}
				return nil
			})
		})
	}
}

// TestForcedSampler: all rows are produced, as without a gate.
func TestForcedSampler(t *testing.T) {
	spec := sampleOf("memory_usage")
	spec.Every = 5 * time.Millisecond
	src, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	set.Gate(0).Force(true)
	r := newRecorder(t, spec.Out)
	if err := src.Start(t.Context(), r, probes.Options{Gates: probes.Gates{Set: set, Own: set.Gate(0), Way: plan.Paused}}); err != nil {
		t.Fatal(err)
	}
	r.batch()
	r.batch()
	src.Stop()
	<-r.ended
	a := src.Stats().Activity
	if len(r.rows) == 0 || a.Shut != 0 || int(a.Events) != len(r.rows) {
		t.Errorf("%d rows of %d ticks, %d shut", len(r.rows), a.Events, a.Shut)
	}
	if !slices.IsSorted(r.watermarks) {
		t.Error("watermarks go back")
	}
}

// BenchmarkTick measures the cost of a tick besides its reading, for wakeNs.
// Compare the process's CPU time, not the elapsed one.
func BenchmarkTick(b *testing.B) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		force bool
	}{{"shut", false}, {"open", true}} {
		b.Run(c.name, func(b *testing.B) {
			spec := sampleOf("memory_usage")
			spec.Every = time.Millisecond
			src, err := New().Prepare(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			set.Gate(0).Force(c.force)
			r := newRecorder(b, spec.Out)
			before := usedCPU(b)
			if err := src.Start(b.Context(), r, probes.Options{Gates: probes.Gates{Set: set, Own: set.Gate(0), Way: plan.Paused}}); err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Second) // which is measured
			src.Stop()
			b.ReportMetric(float64(usedCPU(b)-before)/float64(src.Stats().Activity.Events), "cpu-ns/tick")
		})
	}
}

// sampleOf requests every column of a stream.
func sampleOf(stream string) *plan.Acquire {
	return &plan.Acquire{Stream: stream, Every: time.Second, Out: types.Schema{Fields: tables[stream].Fields()}}
}

// usedCPU returns the CPU time of the process.
func usedCPU(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
