// Package java asks running Java programs for the stacks of their threads, by the
// protocol of the JDK's own tools (jstack, jcmd): a socket of the virtual machine.
//
// The machine brings all threads to a halt for as long as it writes their stacks,
// some 0.1 ms and more with many threads: whoever asks has been told so. Where the
// socket is not there yet, the machine makes it when it gets SIGQUIT and finds a
// certain file. Machines that do not handle that signal (java -Xrs) would die of
// it: the kernel is asked first.
//
// Instead it can be asked to write down where its compiled methods are (a perf map),
// which halts nothing: who has a thread's stack can then name what is on it.
//
// Which methods there are is read in its memory, by what the machine says of its own
// structures: that halts nothing, and it does nothing for it.
//
// The files that this takes lie where the target's user may write: they are made
// and opened so that no symbolic link is followed, the socket must be served by
// the target itself, what it sends is bounded, and so is every wait.
//
// The package must not know eBPF, unwinding, SQL or streams.
package java
