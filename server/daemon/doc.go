// Package daemon is the endoscoped command: flags, the engine, access
// control and listeners; and the commands that create certificates and tokens.
//
//	flags ─► engine ─► access.Guard ─┬► flight.Service ─┬► --listen (TCP, TLS)
//	              │                  │                  └► --unix (socket)
//	              │                  └► web.Server ──────► --web (HTTP, TLS)
//	              └─► /metrics, /healthz (--metrics)
//
// With --fleet the engine also executes what agents (package fleet) find on a bus, and with
// --standing Program.Keep is the root of standing queries, whose results the engine has. With
// --reduce there is no engine: Program.Reduce merges what hosts send to the roots of queries.
//
// The supervisor, the process that is started, runs that in a worker, which it restarts
// when it dies (supervisor.go).
//
// Locks are taken in this order, and never held together:
//
//	journal.mu    while the worker tells its supervisor of a statement
//	logLimits.mu  the counts of log lines; no line is written under it
//
// On SIGTERM and SIGINT it stops in order: queries return what they have, clients
// receive it, and every probe is detached. It must not know the protocol, nor what
// a statement is.
package daemon
