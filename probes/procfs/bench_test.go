package procfs

import (
	"os"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"

	"github.com/prometheus/procfs"
)

// discard is a sink that drops batches.
type discard struct{}

func (discard) Push(b *batch.Batch)    { b.Release() }
func (discard) Partial(b *batch.Batch) { b.Release() }
func (discard) Watermark(int64)        {}
func (discard) Lost(string, uint64)    {}
func (discard) Count(string, uint64)   {}
func (discard) End(error)              {}

// steady returns a sampler in its state after the first samples.
func steady(t testing.TB, stream string) (sample func()) {
	t.Helper()
	spec := &plan.Acquire{Stream: stream, Every: time.Second, Out: types.Schema{Fields: tables[stream].Fields()}}
	switch stream {
	case "process_usage": // without columns that need a directory scan for each sample
		spec.Target.PIDs = []int{os.Getpid()}
		spec.Out = schemaOf(t, stream, "timestamp", "pid", "process", "exe", "percent_cpu", "rss", "vsize", "threads",
			"minor_faults", "major_faults", "read_bytes", "write_bytes")
	case "thread_usage":
		spec.Target.PIDs = []int{os.Getpid()}
	}
	prepared, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	src := prepared.(*source)
	sampler := src.make()
	t.Cleanup(sampler.close)
	src.rows.sink = discard{}
	sample = func() {
		if err := sampler.sample(src.clock(), src.rows); err != nil {
			t.Fatal(err)
		}
		src.rows.flush()
	}
	sample()
	const never = 1 << 62 // the search for processes, ten times a second, does allocate
	switch s := sampler.(type) {
	case *processSampler:
		s.targets.scanned = never
	case *threadSampler:
		s.targets.scanned = never
	}
	for range 4 {
		sample()
	}
	return sample
}

func TestSteadySamplersAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for stream := range tables {
		t.Run(stream, func(t *testing.T) {
			sample := steady(t, stream)
			// Now and then the collector empties the pool of batches.
			if n := testing.AllocsPerRun(200, sample); n >= 1 {
				t.Errorf("%v allocations a sample", n)
			}
		})
	}
}

func BenchmarkSample(b *testing.B) {
	for _, stream := range New().Streams() {
		b.Run(stream, func(b *testing.B) {
			sample := steady(b, stream)
			b.ReportAllocs()
			for b.Loop() {
				sample()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// BenchmarkOracle reads with prometheus/procfs what BenchmarkSample reads.
func BenchmarkOracle(b *testing.B) {
	oracle, err := procfs.NewDefaultFS()
	if err != nil {
		b.Fatal(err)
	}
	self, err := oracle.Proc(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		stream string
		read   func() error
	}{
		{"cpu_usage", func() error { _, err := oracle.Stat(); return err }},
		{"memory_usage", func() error { _, err := oracle.Meminfo(); return err }},
		{"network_usage", func() error { _, err := oracle.NetDev(); return err }},
		{"pressure", func() error {
			for _, r := range []string{"cpu", "memory", "io"} {
				if _, err := oracle.PSIStatsForResource(r); err != nil {
					return err
				}
			}
			return nil
		}},
		{"process_usage", func() error {
			if _, err := self.Stat(); err != nil {
				return err
			}
			_, err := self.IO()
			return err
		}},
		{"process_stat", func() error { _, err := self.Stat(); return err }},
	} {
		b.Run(c.stream, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.read(); err != nil {
					b.Skip(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// BenchmarkProcessStat is the hot file alone, as process_stat of the oracle.
func BenchmarkProcessStat(b *testing.B) {
	ts := newTargets(plan.Target{PIDs: []int{os.Getpid()}}, []process.Process{self(b)}, func(*observed) {})
	if err := ts.refresh(); err != nil {
		b.Fatal(err)
	}
	defer ts.close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		var s process.Stat
		if !ts.running[0].readStat(&buf, &s) {
			b.Fatal("unreadable")
		}
	}
}

func self(t testing.TB) process.Process {
	p, ok := process.Lookup(os.Getpid())
	if !ok {
		t.Fatal("this process is not found")
	}
	return p
}
