// Package progress measures how much running programs do: the processor time of their
// threads, to the nanosecond at any moment.
//
// The kernel's clock of another process is brought up to date at ticks and switches of
// threads only, which is too coarse for slices of a millisecond. Task clocks of perf events
// are read exactly, and need no hardware counters. A thread that begins later is counted
// with the one that started it.
//
// The package must not know why the progress is measured, nor what probes cost.
package progress
