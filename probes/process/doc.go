// Package process finds the processes of a [plan.Target], opens the files they
// execute, watches for their end, and starts a command that is held before its
// first instruction.
//
// It also decides which processes a user may observe ([Visible]): for a target
// with a viewer the others do not exist.
//
// It reads /proc and nothing else. Names, paths and mappings there are
// controlled by the observed processes and therefore hostile: they are parsed
// without trust, a path of a process is resolved inside that process's root,
// and only regular files of bounded size are opened.
//
// It must not know streams, batches or probes: they import it.
package process
