// Package unwind computes the frame of a caller from that of its callee, by
// unwind tables (.eh_frame; DWARF 5, 6.4). It must not know files, functions or
// processes.
package unwind
