// Package unwind says how to get from a frame to that of its caller: it reads unwind tables
// (.eh_frame; DWARF 5, 6.4). It must not know files, functions or processes.
package unwind
