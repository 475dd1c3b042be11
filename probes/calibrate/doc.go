// Package calibrate measures what a probe costs a program on this machine: by
// what is done there (a kind of observation, such as the record of an entry)
// and by how the kernel gets past the instruction (the methods of package codesite).
// The figures differ by an order of magnitude between machines: single-stepping
// costs a virtual machine ten times what it costs others, and which
// instructions are stepped depends on the kernel.
//
// [Measure] runs a program of a few hundred bytes, which is built in memory and
// has no file: functions of one kind of first instruction each, called in loops
// that note the processor time they take. Its caller attaches the very programs
// that queries use. [Cache] keeps the result for the next process.
//
// The package must not know eBPF, links or queries. It fails where it cannot
// measure; what then holds is its caller's business.
package calibrate
