// Package java reads the stacks of the threads of running Java programs, by the
// protocol of the JDK's own tools (jstack, jcmd): a socket of the virtual
// machine.
//
// The machine stops all threads while it writes their stacks, about 0.1 ms and
// more with many threads; queries that do this have a notice. If there is no
// socket yet, the machine creates it when it receives SIGQUIT and finds a
// certain file. Machines that do not handle that signal (java -Xrs) would be
// killed by it, so the signal handlers are checked first.
//
// Alternatively the machine can write the addresses of its compiled methods (a
// perf map), which stops nothing: a native stack can then be symbolised.
//
// The list of loaded methods is read from the machine's memory, by its own
// description of its structures: that neither stops the machine nor costs it
// anything.
//
// The files that this needs are where the target's user may write: they are
// created and opened without following symbolic links, the socket must be
// served by the target itself, and what it sends and every wait are bounded.
//
// The package must not know eBPF, unwinding, SQL or streams.
package java
