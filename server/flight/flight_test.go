package flight

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"endoscope/server"
	"endoscope/server/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves an engine on a loopback port until the test ends, and returns
// the address.
func serve(t testing.TB, e wire.Engine, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(e, o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// engine returns a real engine.
func engine(t testing.TB) wire.Engine {
	t.Helper()
	e, err := server.New(server.Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// foreign returns a generic Flight SQL client.
func foreign(t testing.TB, addr string) *flightsql.Client {
	t.Helper()
	c, err := flightsql.NewClient(addr, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestForeignClientExecutes(t *testing.T) {
	c := foreign(t, serve(t, engine(t), Options{}))
	info, err := c.Execute(t.Context(), "SELECT n, 'x' || n::VARCHAR AS name FROM series(3000)")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.DoGet(t.Context(), info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	next := int64(1)
	for r.Next() {
		rec := r.RecordBatch()
		for i := range int(rec.NumRows()) {
			n, name := rec.Column(0).(*array.Int64).Value(i), rec.Column(1).(*array.String).Value(i)
			if n != next || name != "x"+rec.Column(0).ValueStr(i) {
				t.Fatalf("row %d is %d, %s", next, n, name)
			}
			next++
		}
	}
	if r.Err() != nil || next != 3001 {
		t.Errorf("%d rows, %v", next-1, r.Err())
	}
}
