package variable

import (
	"context"
	"endoscope/probes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// BenchmarkTarget measures one iteration of a loop that writes a variable and
// calls a function with a parameter: alone, and observed.
func BenchmarkTarget(b *testing.B) {
	testenv.NeedUprobes(b)
	program := testenv.CompileC(b, "testdata/busy.c", "-O1", "-g")
	for _, c := range []struct {
		name string
		spec func(pid int) *plan.Acquire
	}{
		{"alone", nil},
		{"watched", func(pid int) *plan.Acquire { return asked(pid, 0, "total") }},
		{"watched text", func(pid int) *plan.Acquire { return asked(pid, 0, "label") }},
		{"sampled 10ms", func(pid int) *plan.Acquire { return asked(pid, 10*time.Millisecond, "total") }},
		{"parameter", func(pid int) *plan.Acquire { return local(pid, "step", "n") }},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			r := run(b, program)
			if c.spec != nil {
				s, err := New().Prepare(context.Background(), c.spec(r.pid))
				if err != nil {
					b.Fatal(err)
				}
				got := &counted{ended: make(chan struct{})}
				if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := s.Stop(); err != nil {
						b.Error(err)
					}
					<-got.ended
					b.ReportMetric(float64(got.rows)/float64(b.N), "rows/op")
				}()
			}
			before := onCPU(b, r.pid)
			b.ResetTimer()
			r.tell(b, strconv.Itoa(b.N))
			b.StopTimer()
			b.ReportMetric(float64(onCPU(b, r.pid)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// onCPU returns the CPU time of the only thread of a process, in ns,
// independent of the machine's load.
func onCPU(b *testing.B, pid int) (ns int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &ns); err != nil {
		b.Fatal(err)
	}
	return ns
}

// BenchmarkSample measures reading a variable.
func BenchmarkSample(b *testing.B) {
	testenv.NeedUprobes(b)
	r := run(b, testenv.CompileC(b, "testdata/busy.c", "-O1", "-g"))
	made, err := New().Prepare(context.Background(), asked(r.pid, time.Second, "total"))
	if err != nil {
		b.Fatal(err)
	}
	got := &counted{ended: make(chan struct{})}
	s := sourceOf(made)
	s.rows.Push = got.Push
	b.ReportAllocs()
	for b.Loop() {
		s.sample(got)
	}
	if err := made.Stop(); err != nil {
		b.Error(err)
	}
}
