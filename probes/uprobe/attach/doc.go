// Package attach attaches loaded programs to instructions of files: by sessions, by
// multi-uprobe links and by perf events, depending on the running kernel. It also holds
// the leases on probed files.
//
// Locks: Leases has one mutex of its own. Its goroutine calls revoke without holding it.
//
// It must not know what a function, a query or a target is.
package attach
