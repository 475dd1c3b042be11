// Command endoscoped is the engine as a daemon: clients ask it over the network.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"endoscope/server/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(daemon.Program{Supervised: true}.Run(ctx, os.Args[1:]))
}
