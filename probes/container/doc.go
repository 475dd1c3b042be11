// Package container says in which container, and in which pod, processes of a control group
// run. The id of the container is part of the group's path, whatever has started it. Its name,
// its pod and its labels are asked of the machine's container runtimes (package runtimes).
// A new container is asked for once, when a process of it is first seen.
//
// A container without a runtime that knows it is called by its id, and a control group without
// an id by its path.
//
// Locks: Directory.mu guards its maps, and Directory.asking is held while the runtimes are
// asked; the former is taken under the latter.
//
// It must not know processes, streams or the protocols of runtimes.
package container
