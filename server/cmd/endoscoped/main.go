// Command endoscoped is the engine as a daemon: clients ask it over the network.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"endoscope/client/fleet/root"
	"endoscope/server/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(daemon.Program{Supervised: true, Keep: keep, Reduce: reduce}.Run(ctx, os.Args[1:]))
}

// keep keeps the standing queries of a fleet: the daemon is their root, as a client is that of
// its own queries.
func keep(ctx context.Context, k daemon.Keeping) error {
	return root.Keep(ctx, root.KeepOptions{Options: root.Options{Bus: k.Bus, Trust: k.Trust}, Name: k.Name, Store: k.Store, Log: k.Log})
}

// reduce merges the results of the hosts of a fleet's shards: the daemon is their root, and sends
// what it has merged to the roots of queries.
func reduce(ctx context.Context, r daemon.Reducing) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(root.ReducerGC)
	}
	return root.Reduce(ctx, root.ReduceOptions{Options: root.Options{Bus: r.Bus, Trust: r.Trust}, Name: r.Name, Shards: r.Shards, Log: r.Log})
}
