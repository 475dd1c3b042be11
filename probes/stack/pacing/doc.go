// Package pacing decides when a sampler takes its next snapshot: a governor limits the
// cost of sampling to a share of a CPU, an alarm wakes the sampler's thread, and a
// priority lets that thread run first when it wakes.
//
// Locks: an alarm has a mutex that guards its descriptor.
//
// It must not know what is sampled.
package pacing
