package remote

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/planner/types"
	"endoscope/server"
	"endoscope/server/flight"
	"endoscope/server/wire"
)

// clinging is an engine whose results take until let is closed to release.
type clinging struct {
	wire.Engine
	let chan struct{}
}

func (c clinging) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	x, err := c.Engine.NewSession(ctx, o)
	return clingingSession{x, c.let}, err
}

type clingingSession struct {
	wire.Session
	let chan struct{}
}

func (x clingingSession) Execute(ctx context.Context, statement string, args ...types.Value) (wire.Result, error) {
	r, err := x.Session.Execute(ctx, statement, args...)
	return clingingResult{r, x.let}, err
}

func (x clingingSession) ExecuteSplit(ctx context.Context, _ wire.Path, statement string, args ...types.Value) (wire.Result, error) {
	return x.Execute(ctx, statement, args...)
}

type clingingResult struct {
	wire.Result
	let chan struct{}
}

func (r clingingResult) Close() error {
	<-r.let
	return r.Result.Close()
}

// If a server answers but does not finish closing a query, its client waits for a
// limited time only, and reports that the state is unknown.
func TestCloseIsLimited(t *testing.T) {
	engine, err := server.New(server.Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	let := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(let) })
	service := flight.New(clinging{engine, let}, flight.Options{})
	served := make(chan error, 1)
	go func() { served <- service.Serve(l) }()
	t.Cleanup(func() {
		goOn()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		service.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := Dial(l.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x.(*session).releasing = 50 * time.Millisecond
	r, err := x.Execute(t.Context(), "SELECT * FROM SAMPLE(memory_usage, 10ms)")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- r.Close() }()
	select {
	case err := <-over:
		if err == nil || !strings.Contains(err.Error(), "did not confirm that the query has ended: its probes may still be attached") {
			t.Errorf("it is closed with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("Close waits for good")
	}
	goOn()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
