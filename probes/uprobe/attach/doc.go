// Package attach attaches loaded programs to instructions of files: by sessions, by
// links of many uprobes and by perf events, as the running kernel has them. It also
// holds the leases on files that are probed.
//
// Locks: leases have one mutex of their own, and a goroutine that calls revoke
// without it.
//
// It must not know what a function, a query or a target is.
package attach
