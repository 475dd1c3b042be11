// Command endoscope asks running programs questions in SQL, with an engine in
// its own process. See endoscope --help.
package main

import (
	"context"
	"os"

	"endoscope/client"
	"endoscope/server"
	"endoscope/server/wire"
)

// version is set by the linker: -ldflags "-X main.version=...".
var version = "(built from source)"

func main() {
	p := client.Program{
		Open:    func() (wire.Engine, error) { return server.New(server.Options{}) },
		Version: version,
	}
	os.Exit(p.Run(context.Background(), os.Args[1:]))
}
