// Package pacing says when a sampler takes its next snapshot: a governor keeps what it
// costs to a share of a CPU, an alarm wakes its thread, and a priority has that thread
// run first while it waits.
//
// Locks: an alarm has a mutex that guards its descriptor.
//
// It must not know what is sampled.
package pacing
