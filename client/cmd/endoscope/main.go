// Command endoscope runs SQL queries over running programs, with an engine in its own
// process. See endoscope --help.
package main

import (
	"context"
	"os"

	"endoscope/client"
	"endoscope/client/remote"
	"endoscope/probes/process"
	"endoscope/server"
	"endoscope/server/wire"
)

// version is set by the linker: -ldflags "-X main.version=...".
var version string

func main() {
	os.Exit(program().Run(context.Background(), os.Args[1:]))
}

func program() client.Program {
	return client.Program{
		Open: func() (wire.Engine, error) { return server.New(server.Options{}) },
		Launch: func(argv []string) (remote.Command, error) {
			return process.Launch(argv, os.Stdin, os.Stdout, os.Stderr, os.Environ())
		},
		ServeWeb:   serveWeb,
		ServeFleet: serveFleet,
		Version:    version,
	}
}
