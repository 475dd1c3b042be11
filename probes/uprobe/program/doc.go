// Package program specialises the programs of package bpf for one query, loads them, and
// collects what they count and aggregate.
//
// Locks: an aggregator has one mutex, held while a slot of states is read and never
// while waiting for the provider's. It is acquired under the provider's mutex and never
// the other way round.
//
// It must not know how functions are found, where their probes are attached, or which
// code reads the ring.
package program
