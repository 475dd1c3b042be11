// Package wire defines the interface between a client and an engine: sessions,
// results and their metadata. A client works the same with an engine in its own
// process and with one on another machine.
//
// It must not know how statements are parsed, planned or executed, nor how results
// are displayed.
package wire
