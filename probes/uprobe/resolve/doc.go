// Package resolve decides what is probed for a query on this machine: of the functions
// selected which can be, at which instructions, how their returns are observed, and
// which need no probe because their calls follow from those of others. What cannot be
// probed it refuses or leaves out, by name.
//
// What it returns belongs to its caller; it has no locks.
//
// It must not attach anything, and must not know the programs and maps of a query in
// the kernel.
package resolve
