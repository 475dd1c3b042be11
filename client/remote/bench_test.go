package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"endoscope/client/remote"
	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// source is an engine whose only result has rows of four columns, as for a query of
// function calls: a time, a number, a name, a measure.
type source struct{ rows int }

type sourceSession struct {
	wire.Session
	s source
}

type sourceResult struct {
	wire.Result
	left int
	pool *batch.Pool
	now  int64
	code uint32
}

var sourceColumns = []wire.Column{{Name: "timestamp", Type: types.Timestamp}, {Name: "pid", Type: types.Bigint},
	{Name: "function_name", Type: types.Varchar}, {Name: "value", Type: types.Double}}

func (s source) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return &sourceSession{s: s}, nil
}
func (s source) Close() error { return nil }

func (s *sourceSession) Close() error { return nil }
func (s *sourceSession) Execute(context.Context, string, ...types.Value) (wire.Result, error) {
	kinds := make([]types.Type, len(sourceColumns))
	for i, c := range sourceColumns {
		kinds[i] = c.Type
	}
	r := &sourceResult{left: s.s.rows, pool: batch.NewPool(kinds)}
	for i := range 64 {
		r.pool.Dict(2).Code(fmt.Sprintf("function_number_%d", i))
	}
	return r, nil
}

func (r *sourceResult) Columns() []wire.Column { return sourceColumns }
func (r *sourceResult) Message() string        { return "" }
func (*sourceResult) Info() wire.Info          { return wire.Info{} }
func (r *sourceResult) Stop()                  {}
func (r *sourceResult) Close() error           { return nil }
func (r *sourceResult) Summary() wire.Summary  { return wire.Summary{} }
func (r *sourceResult) Next(context.Context) (wire.Event, error) {
	if r.left == 0 {
		return wire.Event{}, io.EOF
	}
	b := r.pool.Get()
	b.N = min(batch.MaxRows, r.left)
	r.left -= b.N
	for i := range b.N {
		r.now += 100
		r.code = (r.code + 7) & 63
		b.Cols[0].Int = append(b.Cols[0].Int, r.now)
		b.Cols[1].Int = append(b.Cols[1].Int, int64(i))
		b.Cols[2].Code = append(b.Cols[2].Code, r.code)
		b.Cols[3].Float = append(b.Cols[3].Float, float64(i))
	}
	b.Cols[2].Values = r.pool.Dict(2).Values()
	return wire.Event{Kind: wire.Rows, Batch: b}, nil
}

// BenchmarkRows measures the rate of rows of four columns, one of them a string, over
// the loopback with client and server on the same machine.
func BenchmarkRows(b *testing.B) {
	const rows = 4 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := flight.New(source{rows}, flight.Options{})
	go func() { _ = s.Serve(l) }()
	defer s.Stop(context.Background())
	e, err := remote.Dial(l.Addr().String(), remote.Options{})
	if err != nil {
		b.Fatal(err)
	}
	x, err := e.NewSession(b.Context(), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	before := processorTime(b)
	for b.Loop() {
		r, err := x.Execute(b.Context(), "all of it")
		if err != nil {
			b.Fatal(err)
		}
		got, sum := 0, int64(0)
		for {
			ev, err := r.Next(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if ev.Batch == nil {
				continue
			}
			got += ev.Batch.Len()
			for _, v := range ev.Batch.Cols[1].Int { // use the data
				sum += v
			}
			ev.Batch.Release()
		}
		if got != rows {
			b.Fatalf("%d rows of %d", got, rows)
		}
	}
	all := float64(rows) * float64(b.N) / 1e6
	b.ReportMetric(all/b.Elapsed().Seconds(), "Mrows/s")
	// On a busy machine this is more meaningful.
	b.ReportMetric(all/(processorTime(b)-before).Seconds(), "Mrows/cpu-s")
}

// processorTime returns the CPU time of this process (client and server).
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFirstRow measures the time from sending a statement to its first row.
func BenchmarkFirstRow(b *testing.B) {
	s := serve(b, flight.Options{})
	x := s.session(b, wire.Options{})
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		r, err := x.Execute(b.Context(), "SELECT n, 'x' FROM series(1)")
		if err != nil {
			b.Fatal(err)
		}
		ev, err := r.Next(b.Context())
		if err != nil || ev.Batch.Len() != 1 {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		ev.Batch.Release()
		_ = r.Close()
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
}
