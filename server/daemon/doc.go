// Package daemon is the endoscoped command: flags, the engine, who may use it, and
// where it listens; and the commands that make certificates and tokens.
//
//	flags ─► engine ─► access.Guard ─► flight.Service ─┬► --listen (TCP, TLS)
//	              └─► /metrics, /healthz (--metrics)   └► --unix (socket)
//
// SIGTERM and SIGINT end it in order: queries give what they have, clients get
// it, and nothing stays attached. It must not know the protocol, nor what a
// statement is.
package daemon
