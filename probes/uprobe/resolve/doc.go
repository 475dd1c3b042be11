// Package resolve decides what is probed for a query on this machine: which of the
// selected functions can be probed, at which instructions, how their returns are
// observed, and which functions need no probe because their calls follow from the
// calls of others. Functions that cannot be probed are rejected or left out, by name.
//
// Its results belong to the caller; it has no locks.
//
// It must not attach anything, and must not know the programs and maps of a query in
// the kernel.
package resolve
