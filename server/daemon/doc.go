// Package daemon is the endoscoped command: flags, the engine, and where it
// listens.
//
//	flags ─► engine ─► flight.Service ─┬► --listen (TCP)
//	                                   └► --unix (socket)
//
// SIGTERM and SIGINT end it in order: queries give what they have, clients get
// it, and nothing stays attached. It must not know the protocol, nor what a
// statement is.
package daemon
