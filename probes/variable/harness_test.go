package variable

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a program that executes commands, line by line.
type target struct {
	pid   int
	in    io.Writer
	lines *bufio.Scanner
}

// run starts a program, which answers when it is ready. It ends with the test. A query may guard it,
// as it may guard any program but a child that something else in this process waits for.
func run(t testing.TB, name string) *target {
	t.Helper()
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := process.Launch([]string{name}, stdin, stdout, os.Stderr, nil)
	stdin.Close()
	stdout.Close()
	if err == nil {
		err = c.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Kill(); <-c.Wait(); in.Close(); out.Close() })
	r := &target{c.PID(), in, bufio.NewScanner(out)}
	r.answer(t)
	return r
}

func (r *target) answer(t testing.TB) {
	t.Helper()
	if !r.lines.Scan() {
		t.Fatal("the target has ended")
	}
}

// tell sends commands and waits for each to be done.
func (r *target) tell(t testing.TB, commands ...string) {
	t.Helper()
	for _, c := range commands {
		fmt.Fprintln(r.in, c)
		r.answer(t)
	}
}

// record is a sink that keeps rows as text.
type record struct {
	mu     sync.Mutex
	fields []types.Field
	rows   []map[string]string
	lost   map[string]uint64
	normal []string // causes whose counts are no error
	err    error
	ended  chan struct{}
}

func (r *record) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.N {
		row := map[string]string{}
		for k, f := range r.fields {
			if v := b.Cols[k].Value(i); !v.IsNull {
				row[f.Name] = strings.Trim(plan.FormatValue(v), "'")
			}
		}
		r.rows = append(r.rows, row)
	}
	b.Release()
}

func (r *record) Partial(b *batch.Batch)       { b.Release() }
func (r *record) Watermark(int64)              {}
func (r *record) Count(cause string, n uint64) { r.Lost(cause, n) }
func (r *record) End(err error)                { r.err = err; close(r.ended) }

func (r *record) Lost(cause string, n uint64) {
	if cause == withheld || cause == trapped {
		unreported.Add(int64(n))
	}
	r.mu.Lock()
	r.lost[cause] += n
	r.mu.Unlock()
}

// has reports whether a cause was counted or lost.
func (r *record) has(cause string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[cause] > 0
}

// row returns the n'th row, or nil.
func (r *record) row(n int) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < 0 || n >= len(r.rows) {
		return nil
	}
	return r.rows[n]
}

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows)
}

// await waits until there are n rows.
func (r *record) await(t testing.TB, n int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("there are %d rows", n), func() bool { return r.len() >= n })
}

// asked returns a specification of all columns for variables.
func asked(pid int, every time.Duration, names ...string) *plan.Acquire {
	in := &plan.In{X: &plan.Col{Index: 6, Name: "var_name", T: types.Varchar}}
	for _, name := range names {
		in.List = append(in.List, plan.Const{V: types.Str(name)})
	}
	return &plan.Acquire{Stream: Stream, Target: plan.Target{PIDs: []int{pid}}, Every: every, Filter: in, Out: types.Schema{Fields: table.Fields()}}
}

// observe starts a source; the returned function stops it.
func observe(t testing.TB, spec *plan.Acquire) (got *record, stop func()) {
	t.Helper()
	s, err := New().Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got = &record{fields: table.Fields(), lost: map[string]uint64{}, ended: make(chan struct{})}
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() }) // where the test ends before it stops the source
	return got, func() {
		t.Helper()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		<-got.ended
		for _, cause := range append(got.normal, overrun) { // on a busy machine
			delete(got.lost, cause)
		}
		if got.err != nil || len(got.lost) > 0 {
			t.Errorf("error %v, lost %v", got.err, got.lost)
		}
	}
}

// counted is a sink that counts rows.
type counted struct {
	rows  int
	ended chan struct{}
}

func (c *counted) Push(b *batch.Batch)    { c.rows += b.N; b.Release() }
func (c *counted) Partial(b *batch.Batch) { b.Release() }
func (c *counted) Watermark(int64)        {}
func (c *counted) Lost(string, uint64)    {}
func (c *counted) Count(string, uint64)   {}
func (c *counted) End(error)              { close(c.ended) }

var _, _ probes.Sink = (*record)(nil), (*counted)(nil)
