// Package client is the client side of an engine: a Go API ([Connect], [Conn.Query]), the
// database/sql driver "endoscope", and the endoscope command: flags,
// sources of statements, destinations of results, and the exit code.
//
//	flags ─► engine, session ─► repl.Shell ─► runner ─► render
//	flags ─► help                    endoscope help [TOPIC]
//	Connect ─► Conn ─► Rows          sql.Open("endoscope", addr)
//
// To add something, write this:
//
//	output format   a file in client/render that implements Renderer and calls define,
//	                and its name in render.Formats
//	help topic      client/help/topics/NAME.md: its title, a sentence, its group. Lists,
//	                completion and links follow
//	command of \    a row in client/repl/commands.go
//	example query   client/repl/examples/NAME.sql
//
// It uses an engine only through [endoscope/server/wire]: package remote connects to
// one on another machine, and client/cmd/endoscope links one into the command's own
// process. It must not know how statements are
// planned or executed.
package client
