// Package client is what asks an engine: a Go API ([Connect], [Conn.Query]), the
// database/sql driver "endoscope", and the endoscope command: flags, where
// statements come from, where their results go, and the exit code.
//
//	flags ─► engine, session ─► repl.Shell ─► runner ─► render
//	flags ─► help                    endoscope help [TOPIC]
//	Connect ─► Conn ─► Rows          sql.Open("endoscope", addr)
//
// It talks to an engine only as [endoscope/server/wire] describes it: one
// elsewhere by package remote; the one that runs in the command's own process is
// joined to it in client/cmd/endoscope. It must not know how statements are
// planned or executed.
package client
