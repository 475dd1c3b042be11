package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/client"
	"endoscope/client/fleet/root"
	"endoscope/planner/types"
	"endoscope/server"
	"endoscope/server/fleet"
	"endoscope/server/standing"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// serveFleet runs a bus that listens nowhere, and the agents of a demonstration
// (client.Program.ServeFleet). They share one engine, so that hosts that observe the same
// program share its probes.
func serveFleet(ctx context.Context, d client.FleetDemo) (_ *bus.Address, wait func() error, err error) {
	dir, err := os.MkdirTemp("", "endoscope-fleet-")
	if err != nil {
		return nil, nil, err
	}
	var engine *server.Engine
	var kept *standing.Store
	var agents sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	shutDown := func() {}
	wait = func() error {
		stop()
		agents.Wait()
		shutDown()
		var err error
		if engine != nil {
			err = engine.Close()
		}
		if kept != nil {
			kept.Close()
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	fail := func(err error) (*bus.Address, func() error, error) { return nil, nil, errors.Join(err, wait()) }
	nats, err := natsd.NewServer(&natsd.Options{ServerName: "endoscope", DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true, MaxPayload: 1 << 20})
	if err != nil {
		return fail(err)
	}
	nats.Start()
	shutDown = func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	}
	if !nats.ReadyForConnections(time.Minute) {
		return fail(errors.New("the bus does not start"))
	}
	at := &bus.Address{Server: nats}
	nc, err := at.Connect("demo", false)
	if err != nil {
		return fail(err)
	}
	err = bus.Prepare(ctx, nc, 0)
	nc.Close()
	if err != nil {
		return fail(err)
	}
	kept, err = standing.Open(filepath.Join(dir, "standing"), func(string) string { return "" })
	if err != nil {
		return fail(err)
	}
	if engine, err = server.New(server.Options{Standing: kept}); err != nil {
		return fail(err)
	}
	silent := slog.New(slog.NewTextHandler(io.Discard, nil))
	keeper, err := fleet.New(fleet.Options{Host: bus.Host{Name: bus.ReducerName("demo"), Version: d.Version}, Bus: *at, Engine: shared{engine, 1}, Log: silent})
	if err != nil {
		return fail(err)
	}
	agents.Go(func() { _ = keeper.Run(ctx) })
	agents.Go(func() {
		_ = root.Keep(ctx, root.KeepOptions{Options: root.Options{Bus: *at}, Name: "demo", Store: kept, Log: silent})
	})
	for i := range d.Hosts {
		program := i % len(d.Programs)
		a, err := fleet.New(fleet.Options{
			Host: bus.Host{Name: fmt.Sprintf("demo-%03d", i+1), Version: d.Version, Kernel: fleet.Kernel(),
				Labels: map[string]string{"rack": fmt.Sprintf("r%d", i/10+1), "program": fmt.Sprint(program + 1)}},
			Bus: *at, Engine: shared{engine, (d.Hosts-program-1)/len(d.Programs) + 1}, Target: wire.Options{PID: d.Programs[program]},
			Log: silent,
		})
		if err != nil {
			return fail(err)
		}
		agents.Go(func() { _ = a.Run(ctx) })
	}
	return at, wait, nil
}

// shared is an engine. Its sessions have the user of this process, not that of the query. Each of
// its hosts has its part of the cost of the probes that they share.
type shared struct {
	wire.Engine
	hosts int // that observe the same program
}

func (s shared) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	o.User = nil
	session, err := s.Engine.NewSession(ctx, o)
	if err != nil {
		return nil, err
	}
	return sharedSession{session, s.hosts}, nil
}

type sharedSession struct {
	wire.Session
	hosts int
}

// ExecuteShare implements wire.Sharer.
func (s sharedSession) ExecuteShare(ctx context.Context, host, text string, args ...types.Value) (wire.Result, error) {
	r, err := s.Session.(wire.Sharer).ExecuteShare(ctx, host, text, args...)
	if err != nil {
		return nil, err
	}
	return sharedResult{r, s.hosts}, nil
}

type sharedResult struct {
	wire.Result
	hosts int
}

func (r sharedResult) Summary() wire.Summary {
	s := r.Result.Summary()
	s.Cost /= time.Duration(r.hosts)
	return s
}
