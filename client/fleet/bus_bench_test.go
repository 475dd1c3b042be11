package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// replayed is an engine that answers every query with the same share: states of groups
// that a real engine has sent once, each second.
type replayed struct {
	share *wire.Share
	cols  []wire.Column
	rows  []*batch.Batch
}

// record executes a statement at a real engine, and keeps its share.
func record(b testing.TB, e wire.Engine, statement string) *replayed {
	b.Helper()
	s, err := e.NewSession(b.Context(), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r, err := s.(wire.Sharer).ExecuteShare(b.Context(), "h", statement)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	out := &replayed{share: r.(wire.Shared).Share(), cols: r.Columns()}
	for {
		ev, err := r.Next(b.Context())
		if errors.Is(err, io.EOF) || ev.Kind == wire.Flush {
			return out
		}
		if err != nil {
			b.Fatal(err)
		}
		if ev.Batch != nil {
			out.rows = append(out.rows, ev.Batch)
		}
	}
}

func (e *replayed) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return replayedSession{e: e}, nil
}
func (e *replayed) Close() error { return nil }

type replayedSession struct {
	wire.Session
	e *replayed
}

func (s replayedSession) Close() error { return nil }

func (s replayedSession) ExecuteShare(context.Context, string, string, ...types.Value) (wire.Result, error) {
	return &replayedResult{e: s.e, stop: make(chan struct{}), tick: time.NewTicker(time.Second)}, nil
}

type replayedResult struct {
	e    *replayed
	stop chan struct{}
	once sync.Once
	tick *time.Ticker
	left []wire.Event
}

func (r *replayedResult) Columns() []wire.Column { return r.e.cols }
func (r *replayedResult) Message() string        { return "" }
func (r *replayedResult) Share() *wire.Share     { return r.e.share }
func (r *replayedResult) Summary() wire.Summary  { return wire.Summary{} }
func (r *replayedResult) Stop()                  { r.once.Do(func() { close(r.stop) }) }

func (r *replayedResult) Close() error {
	r.Stop()
	r.tick.Stop()
	return nil
}

func (r *replayedResult) Next(ctx context.Context) (wire.Event, error) {
	if len(r.left) == 0 {
		select {
		case <-r.tick.C:
		case <-r.stop:
			return wire.Event{}, io.EOF
		case <-ctx.Done():
			return wire.Event{}, ctx.Err()
		}
		for _, b := range r.e.rows {
			r.left = append(r.left, wire.Event{Kind: wire.Rows, Batch: b.Retain()})
		}
		r.left = append(r.left, wire.Event{Kind: wire.Flush})
	}
	ev := r.left[0]
	r.left = r.left[1:]
	return ev, nil
}

// used returns the processor time of this process.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHosts measures what a query costs by the number of hosts: agents that send 100
// groups with a quantile each second, the bus, and the root, all in this process. An
// iteration is one merged answer.
func BenchmarkHosts(b *testing.B) {
	const statement = "SELECT n % 100 AS k, COUNT(*), QUANTILE(n, 0.99) FROM series(10000) GROUP BY n % 100 EMIT EVERY 1s"
	for _, hosts := range []int{100, 300, 1000} {
		b.Run(fmt.Sprint("hosts=", hosts), func(b *testing.B) {
			e := engine(b)
			defer e.Close()
			replay := record(b, e, statement)
			to := startBus(b)
			for i := range hosts {
				to.join(b, bus.Host{Name: fmt.Sprintf("host%04d", i)}, replay)
			}
			s := to.dial(b, hosts)
			var first time.Duration
			began := time.Now()
			r, err := s.Execute(b.Context(), statement)
			if err != nil {
				b.Fatal(err)
			}
			armed := time.Since(began)
			defer r.Close()
			answer := func() {
				for {
					ev, err := r.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if ev.Batch != nil {
						ev.Batch.Release()
					}
					if ev.Kind == wire.Flush {
						return
					}
				}
			}
			answer()
			first = time.Since(began)
			bytes := func() int64 {
				v, err := to.Varz(nil)
				if err != nil {
					b.Fatal(err)
				}
				return v.InBytes
			}
			cpu, sent, at := used(), bytes(), time.Now()
			b.ResetTimer()
			for b.Loop() {
				answer()
			}
			b.StopTimer()
			took := time.Since(at).Seconds()
			b.ReportMetric(armed.Seconds(), "s-to-armed")
			b.ReportMetric(first.Seconds(), "s-to-first")
			b.ReportMetric((used()-cpu).Seconds()/took, "CPUs")
			b.ReportMetric(float64(bytes()-sent)/took/1e3, "kB/s")
			b.Log(r.Summary().Notes)
		})
	}
}
