// Package client is the endoscope command: flags, where statements come from,
// where their results go, and the exit code.
//
//	flags ─► engine, session ─► repl.Shell ─► runner ─► render
//
// It talks to an engine only as [endoscope/server/wire] describes it; the one
// that runs in the same process is joined to it in client/cmd/endoscope. It
// must not know how statements are parsed, planned or executed.
package client
