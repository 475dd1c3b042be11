// Package decode reads the ring that the programs of all queries write into, and turns
// each event into a row of its query: it names processes, classes of receivers and
// methods, and unwinds stacks.
//
// Goroutines and locks: one goroutine, the reader, owns routes and subscriptions;
// other goroutines change them by commands that it executes between two drains. It
// takes no lock of the provider.
//
// It must not know how functions are selected and probed, nor who consumes the rows.
package decode
