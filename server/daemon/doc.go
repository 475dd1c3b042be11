// Package daemon is the endoscoped command: flags, the engine, access
// control and listeners; and the commands that create certificates and tokens.
//
//	flags ─► engine ─► access.Guard ─► flight.Service ─┬► --listen (TCP, TLS)
//	              └─► /metrics, /healthz (--metrics)   └► --unix (socket)
//
// The supervisor, the process that is started, runs that in a worker, which it restarts
// when it dies (supervisor.go).
//
// On SIGTERM and SIGINT it stops in order: queries return what they have, clients
// receive it, and every probe is detached. It must not know the protocol, nor what
// a statement is.
package daemon
