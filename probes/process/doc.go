// Package process finds the processes that a [plan.Target] means, opens the
// files they execute, tells when they end, and starts a command that is held
// before its first instruction.
//
// It says, too, whom a user may observe ([Visible]): for a target with a viewer the
// other processes do not exist.
//
// It reads /proc and nothing else. What it reads there was written by the
// processes observed (names, paths, mappings) and is hostile: it is parsed
// without trust, a path of a process is resolved inside that process's root,
// and only regular files of bounded size are opened.
//
// It must not know streams, batches or probes: they import it.
package process
