// Package uprobe acquires the streams of function calls (function_start,
// function_end, function_duration, function_call) and of what allocators' do
// (allocation, deallocation), by probes in the text of running programs.
//
// The way of a query: [Provider.Prepare] finds the processes, their modules
// and the functions selected, decides where each is probed, and refuses by
// name what cannot be probed. It compiles the query's condition (package
// codegen). What many functions of running programs will cost it estimates from
// the rates of their calls (package rates). Source.Start loads the programs of
// package bpf with that condition for this query alone, and attaches them:
// several queries have links of their own at one site, all of which the kernel
// serves in one trap, so that none misses an event when another comes or goes.
// (Queries that are equal in all this have one source together, see
// probes.Divide.) All write into one ring buffer;
// one goroutine reads it and gives each event to its query.
//
// Where the specification has the first stage of an aggregate that the kernel
// can run, calls are folded into states there: in an array by function, or in
// hash tables by CPU and key. Those that cannot be (arithmetic that may
// overflow, no room for another group, a state in which a program was
// interrupted, a pane that is closed) become rows as ever, so that both together
// are exact. There are two slots of states, for two ranges of time; aggregator
// says how one is read while calls go on into the other.
//
// The rooms, each of which may import those before it:
//
//	abi        the numbers that the programs in the kernel and user space agree on
//	attach     links of the kernel between programs and instructions, leases on files
//	selection  the modules, functions and processes that a query means
//	calls      what is observed of a function's calls, how values are read, what it costs
//	program    a query's programs and maps in the kernel, and what they aggregate
//	decode     from the ring to rows
//	resolve    what is probed for a query on this machine
//	uprobe     the provider and its sources: what is attached, when, and for whom
//
// decode and resolve do not know each other.
//
// On which objects methods are called the programs tell by two words of memory,
// which are pointers to virtual tables if there is an object; receivers finds out
// of which class, from the modules (symbols.Classes).
//
// Where calls come from is looked at when their events are sent, at the return if
// that is where (caller.h, copy.h): the return address, and the stack as it lies in
// memory, which package stack unwinds as it does samples; the reader waits for it.
// Stacks are not followed by frame pointers in the kernel, though Go's code and some of C
// has them everywhere: it was measured, and is not clearly cheaper. ns a call, at 4, 11,
// 23 and 63 frames of a C program with frame pointers, where a record alone takes 575:
// copied 1,090 to 1,120, 1,270 to 1,480, 2,040 to 2,180 and (cut off at 8 KiB) 2,270 to
// 2,510; the kernel's own walk, bpf_get_stack or bpf_get_stackid, 1,230, 1,470, 1,900 and
// 3,240; a walk by a program that ends where a module has none and copies the rest, so
// that tables can prove each frame in user space, 1,300, 1,320, 1,630 and 2,870. A read
// of the thread's memory takes the kernel 25 ns for two words and 60 for 512 bytes.
//
// Allocations and deallocations are calls of functions that allocators has a list
// of, of which those alone become rows that no other of them encloses.
//
// Probes are attached by the best kind of link that the kernel has, or the one
// that is asked for (attach.Kind): the programs are the same. What a probe costs is
// measured by package calibrate, once for each machine (costs): that decides
// between instructions, and is what EXPLAIN says.
//
// Where only numbers of calls are asked, functions whose calls follow from those
// of others by the program's text have no probe (codesite.Code.CallSources): with
// each state or event of a function come those of what follows. Their calls are
// counted with the caller's, some instructions before they happen.
//
// What is guaranteed:
//
//   - A call is one row, or in one state, or is counted: as lost (the ring was
//     full, too many calls were under way), as unfinished (it did not return:
//     longjmp, exception, panic, exit, detached first), or as skipped (its return
//     could not be awaited safely).
//   - Of function_call, the events of a thread, or in Go of a goroutine, come in
//     the order in which they happened, and where some are missing a GAP stands in
//     front of the next; a loss that nothing follows is only counted. Each ENTER
//     is followed by its LEAVE or UNWIND at the same depth, unless the query ended
//     first. It begins and ends for all functions at one instant.
//   - A query's probes are detached when it ends, and with the death of this
//     process at the latest.
//   - A function whose probing is not known to be safe is left alone and named.
//
// Returns are observed in two ways. The kernel's return trap replaces the return
// address of a call: cheap, and allowed only where nobody else looks at that
// address (symbols.ReturnTrap). Everywhere else, or where the session says so,
// the instructions by which a function leaves are probed; calls are paired by
// the address of their return address, in Go by its distance from the top of the
// goroutine's stack (exit.h). A call that leaves by a tail call ends with it, and
// its retval is NULL. Programs that copy stacks to and fro (greenlets) may have
// their calls in one frame mistaken for each other. Where depth is read, all
// functions of a query are observed in one way, and so they are of function_call:
// calls of a thread count, or those of a goroutine, whose calls of C begin anew.
// That calls were left without returning shows by what is passed then in the
// run-time support of languages (landmark): longjmp, GCC's unwinder, functions of
// Go's runtime; by the end of their thread; and at the latest by a call in their
// frames or in one further out.
//
// What is not guaranteed: a call that is under way when a query ends keeps the
// kernel's return trap until it returns, which costs one more trap and no row.
// Where returns are trapped, other processes that execute the same file pay
// for a trap at each entry, also if the target is one process; a forked child
// does so until it calls exec. On kernels without sessions (before Linux 6.13)
// the kernel sets its return trap before a program can look at the stack:
// programs that switch stacks with code of their own should be observed by exits
// there (SET return_probes). Where the C library's functions or Boost's do it,
// they are (symbols.ReturnTrap).
//
// Where only entries or exits are probed, a link is restricted to the process that is
// asked for by its number. When a thread that is not its leader executes a program,
// such links are attached again (executions, reattach): calls of the new program until
// then are missing, and counted as lost.
//
// Perf events, of kernels before Linux 6.6, are of all processes that execute
// the file, and their detaching takes the kernel 0.1 s each.
//
// A source may be put behind a gate, and open those of others (package gate;
// probes/bpf/gate.h): its programs look at it before anything else. Where the gate
// is shut for long its probes may be detached, and attached again; source.flip is
// held meanwhile, and taken before Provider.mu.
//
// Goroutines and locks. [Provider] has one mutex, held while probes come and
// go; it is never taken by the reader. The reader owns routes and
// subscriptions; others change them by commands that it executes between two
// drains. A source that ends because its processes ended does so on a
// goroutine of its own, and so are panes of time given when they are over. What
// was attached for measuring is detached by goroutines that [Provider.Close]
// waits for. executions has a goroutine that takes Provider.mu, and a mutex that is taken
// under it. aggregator.mu is held while a slot is read (and by who divides a source
// while the reader is waited for), and taken under Provider.mu but never the other way round.
//
// The package must not know how predicates are evaluated (it is given a
// [Matcher]), nor who consumes the rows.
package uprobe
