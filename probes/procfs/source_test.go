package procfs

import (
	"context"
	"endoscope/probes"
	"errors"
	"math"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"

	"go.uber.org/goleak"
)

// recorder is a sink that records values.
type recorder struct {
	t      testing.TB
	schema types.Schema
	delay  func(n int) // called before batch n is received

	mu         sync.Mutex
	batches    int
	rows       [][]types.Value
	watermarks []int64
	lost       map[string]uint64
	err        error
	ended      chan struct{}
	arrived    chan struct{} // one for each batch
}

func newRecorder(t testing.TB, schema types.Schema) *recorder {
	return &recorder{t: t, schema: schema, lost: map[string]uint64{}, ended: make(chan struct{}), arrived: make(chan struct{}, 1000)}
}

// marked reports whether a watermark later than a time was received.
func (r *recorder) marked(after int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.watermarks)
	return n > 0 && r.watermarks[n-1] > after
}

func (r *recorder) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.delay != nil {
		r.delay(r.batches)
	}
	r.batches++
	for i := range b.Len() {
		var row []types.Value
		for c := range b.Cols {
			v := b.Cols[c].Value(i)
			if v.Type == types.Double && (math.IsNaN(v.F) || math.IsInf(v.F, 0)) {
				r.t.Errorf("%s is %v", r.schema.Fields[c].Name, v.F)
			}
			if n := len(r.watermarks); r.schema.Fields[c].Name == "timestamp" && n > 0 && v.I < r.watermarks[n-1] {
				r.t.Errorf("timestamp %d after the watermark %d", v.I, r.watermarks[n-1])
			}
			row = append(row, v)
		}
		r.rows = append(r.rows, row)
	}
	b.Release()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

func (*recorder) Partial(b *batch.Batch) { b.Release() }

func (r *recorder) Watermark(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.watermarks); n > 0 && t < r.watermarks[n-1] {
		r.t.Errorf("watermark %d after %d", t, r.watermarks[n-1])
	}
	r.watermarks = append(r.watermarks, t)
}

func (r *recorder) Lost(cause string, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[cause] += n
}

func (r *recorder) Count(cause string, n uint64) { r.Lost(cause, n) }

func (r *recorder) End(err error) {
	r.err = err
	close(r.ended)
}

// batch waits for the next batch.
func (r *recorder) batch() {
	r.t.Helper()
	select {
	case <-r.arrived:
	case <-r.ended:
		r.t.Fatalf("the stream ended: %v", r.err)
	case <-time.After(2 * time.Minute):
		r.t.Fatal("no sample in two minutes")
	}
}

// column returns all values of a column so far.
func (r *recorder) column(name string) []types.Value {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.schema.Index(name)
	var vs []types.Value
	for _, row := range r.rows {
		vs = append(vs, row[i])
	}
	return vs
}

// schemaOf returns a schema of some columns of a stream; of all, if none is
// named.
func schemaOf(t testing.TB, stream string, names ...string) types.Schema {
	t.Helper()
	all := types.Schema{Fields: tables[stream].Fields()}
	if len(names) == 0 {
		return all
	}
	s := types.Schema{Time: slices.Index(names, "timestamp")}
	for _, name := range names {
		s.Fields = append(s.Fields, all.Fields[all.Index(name)])
	}
	return s
}

// acquire samples a stream until the end of the test.
func acquire(t *testing.T, spec *plan.Acquire) *recorder {
	t.Helper()
	r := newRecorder(t, spec.Out)
	acquireInto(t, spec, r)
	return r
}

func acquireInto(t *testing.T, spec *plan.Acquire, r *recorder) {
	t.Helper()
	p := New()
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Start(context.Background(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := src.Stop(); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-r.ended:
		default:
			t.Error("stopped, but the stream has not ended")
		}
		goleak.VerifyNone(t)
	})
}

func TestEveryStreamSamples(t *testing.T) {
	for stream := range tables {
		t.Run(stream, func(t *testing.T) {
			spec := &plan.Acquire{Stream: stream, Out: schemaOf(t, stream), Every: 30 * time.Millisecond}
			if stream == "process_usage" || stream == "thread_usage" {
				spec.Target.PIDs = []int{start(t, "sleep", "60").Process.Pid}
			}
			began := time.Now()
			r := acquire(t, spec)
			if stream == "disk_usage" && !anyDiskUsed(t) {
				testenv.Skip(t, "no disk has done any I/O on this machine")
			}
			for range 3 {
				r.batch()
			}
			first := time.Duration(r.column("timestamp")[0].I - began.UnixNano())
			if want := 120 * time.Millisecond; stream != "memory_usage" && first < want {
				t.Errorf("first row after %v; the rates of 100 ms, in steps of 30, need %v", first, want)
			}
			for _, f := range spec.Out.Fields {
				if f.Name == "pod" || f.Name == "namespace" || f.Name == "labels" {
					continue // the test runs in no pod
				}
				for _, v := range r.column(f.Name) {
					if v.IsNull {
						t.Errorf("%s is NULL", f.Name)
						break
					}
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if n := len(r.watermarks); n < 2 {
				t.Errorf("%d watermarks", n)
			}
		})
	}
}

func TestOnlyTheColumnsWanted(t *testing.T) {
	spec := &plan.Acquire{Stream: "memory_usage", Every: 5 * time.Millisecond,
		Out: schemaOf(t, "memory_usage", "percent_used", "timestamp", "total")}
	r := acquire(t, spec)
	r.batch()
	row := r.rows[0]
	if len(row) != 3 || row[0].Type != types.Double || row[1].Type != types.Timestamp || row[2].Type != types.Bigint {
		t.Fatalf("row %+v", row)
	}
	if row[0].F <= 0 || row[0].F > 100 || row[2].I < 1<<20 {
		t.Errorf("percent_used %v, total %v", row[0].F, row[2].I)
	}
	if off := time.Since(time.Unix(0, row[1].I)).Abs(); off > time.Minute {
		t.Errorf("timestamp is %v off", off)
	}
}

func TestMissedTicksAreCountedAndTheScheduleKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 20 * time.Millisecond
		p := &Provider{clock: func() int64 { return time.Now().UnixNano() }}
		spec := &plan.Acquire{Stream: "memory_usage", Every: every, Out: schemaOf(t, "memory_usage", "timestamp")}
		src, err := p.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		r := newRecorder(t, spec.Out)
		r.delay = func(n int) {
			if n == 1 {
				time.Sleep(10*every + every/2) // it is a slow sink
			}
		}
		began := time.Now().UnixNano()
		if err := src.Start(context.Background(), r, probes.Options{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15*every + every/2)
		if err := src.Stop(); err != nil {
			t.Error(err)
		}
		<-r.ended
		var ticks []int64
		for _, row := range r.rows {
			ticks = append(ticks, (row[0].I-began)*2/int64(every))
		}
		// The sink takes the second sample until 12.5 intervals have passed.
		if want := []int64{2, 4, 25, 26, 28, 30}; !slices.Equal(ticks, want) {
			t.Errorf("samples after %d half intervals, want %d", ticks, want)
		}
		if n := r.lost[overrun]; n != 9 {
			t.Errorf("%d samples counted as missed, want 9", n)
		}
	})
}

func TestWatermarkAdvancesBetweenSamples(t *testing.T) {
	r := acquire(t, &plan.Acquire{Stream: "memory_usage", Every: time.Hour, Out: schemaOf(t, "memory_usage")})
	testenv.Until(t, "there are watermarks without a sample", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.watermarks) >= 2
	})
}

func TestContextEndsTheStream(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	src, err := New().Prepare(ctx, &plan.Acquire{Stream: "memory_usage", Every: time.Hour, Out: schemaOf(t, "memory_usage")})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t, schemaOf(t, "memory_usage"))
	if err := src.Start(ctx, r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-r.ended
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("ended by %v", r.err)
	}
	src.Stop()
}

func TestRefusals(t *testing.T) {
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		spec      plan.Acquire
		msg, hint string
	}{
		{"no interval", plan.Acquire{Stream: "cpu_usage", Out: schemaOf(t, "cpu_usage")},
			"cpu_usage has a value at every instant and cannot be read tuple by tuple", "SAMPLE(cpu_usage, 100ms)"},
		{"no target", plan.Acquire{Stream: "process_usage", Every: time.Second, Out: schemaOf(t, "process_usage")},
			"process_usage needs a process", "WHERE pid = ..., WHERE process = '...', or USE ..."},
		{"no such process", plan.Acquire{Stream: "thread_usage", Every: time.Second, Out: schemaOf(t, "thread_usage"),
			Target: plan.Target{PIDs: []int{1 << 30}}},
			"there is no process 1073741824", "SHOW PROCESSES lists those that run"},
		{"no such column", plan.Acquire{Stream: "memory_usage", Every: time.Second,
			Out: types.Schema{Fields: []types.Field{{Name: "colour", Type: types.Varchar}}}},
			"memory_usage has no column colour of type VARCHAR", ""},
		{"another type", plan.Acquire{Stream: "memory_usage", Every: time.Second,
			Out: types.Schema{Fields: []types.Field{{Name: "total", Type: types.Double}}}},
			"memory_usage has no column total of type DOUBLE", ""},
		{"no such stream", plan.Acquire{Stream: "function_start", Every: time.Second},
			"there is no stream function_start in /proc", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Start, c.spec.Stop = 14, 23
			_, err := New().Prepare(t.Context(), &c.spec)
			var pe *plan.Error
			if !errors.As(err, &pe) {
				t.Fatalf("got %v", err)
			}
			if pe.Msg != c.msg || pe.Hint != c.hint || pe.Start != 14 || pe.Stop != 23 {
				t.Errorf("got  %q, hint %q at %d-%d\nwant %q, hint %q", pe.Msg, pe.Hint, pe.Start, pe.Stop, c.msg, c.hint)
			}
		})
	}
}

func TestSites(t *testing.T) {
	for _, c := range []struct {
		stream string
		out    []string
		want   string
	}{
		{"cpu_usage", nil, "/proc/stat"},
		{"process_usage", []string{"rss"}, "/proc/PID/stat"},
		{"process_usage", []string{"write_bytes", "read_bytes", "open_files"}, "/proc/PID/stat, fd, io"},
		{"thread_usage", []string{"state"}, "/proc/PID/task/TID/stat"},
		{"thread_usage", []string{"run_delay"}, "/proc/PID/task/TID/stat, schedstat"},
	} {
		src, err := New().Prepare(t.Context(), &plan.Acquire{Stream: c.stream, Every: time.Second,
			Out: schemaOf(t, c.stream, c.out...), Target: plan.Target{PIDs: []int{1}}})
		if err != nil {
			t.Fatal(err)
		}
		sites := src.Info().Sites
		if len(sites) != 1 || sites[0].Function != c.want || sites[0].CostNs <= 0 || sites[0].Method != "procfs" {
			t.Errorf("%s %v: %+v, want %s", c.stream, c.out, sites, c.want)
		}
	}
}
