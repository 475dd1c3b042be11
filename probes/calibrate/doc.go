// Package calibrate measures the cost of a probe to a program on this machine:
// by kind of observation (such as the record of an entry) and by how the kernel
// executes the probed instruction (the methods of package codesite). The
// figures differ by an order of magnitude between machines: single-stepping
// costs ten times as much in a virtual machine as elsewhere, and which
// instructions are stepped depends on the kernel.
//
// [Measure] runs a program of a few hundred bytes, built in memory without a
// file: functions that begin with different kinds of instructions, called in
// loops that measure their processor time. The caller attaches the same
// programs that queries use. [Cache] keeps the result for later processes.
//
// The package must not know eBPF, links or queries. It fails if it cannot
// measure; the caller chooses the fallback.
package calibrate
