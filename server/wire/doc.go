// Package wire is what a client and an engine say to each other: sessions,
// results and their metadata. A client works the same against an engine in its
// own process and one behind a network.
//
// It must not know how statements are parsed, planned or executed, nor how
// results are shown.
package wire
