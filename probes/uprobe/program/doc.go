// Package program makes the programs of package bpf those of one query, loads them,
// and collects what they count and aggregate.
//
// Locks: an aggregator has one mutex, held while a slot of states is read and never
// while something waits for the provider's. It is taken under the provider's mutex and
// never the other way round.
//
// It must not know how functions are found, where their probes are attached, or who
// reads the ring.
package program
