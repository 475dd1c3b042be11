// Package uprobe acquires the streams of function calls (function_start,
// function_end, function_duration, function_call) and of memory management
// (allocation, deallocation), by probes in the code of running programs.
//
// Stages of a query: [Provider.Prepare] finds the processes, their modules and
// the functions selected, decides where each is probed, and refuses by name
// what cannot be probed. It compiles the query's condition (package codegen).
// It estimates the cost of many functions in running programs from the rates
// of their calls (package rates). Source.Start specialises the programs of
// package bpf for this query, with its condition, loads them and attaches them.
// Several queries have separate links at one site. The kernel serves all of
// them in one trap, and none misses an event when another is attached or
// detached. (Queries that are equal in all this share one source, see
// probes.Divide.) All programs write into one ring buffer; one goroutine reads
// it and dispatches each event to its query.
//
// Where the specification has the first stage of an aggregate that the kernel
// can run, calls are folded into states there: in an array by function, or in
// hash tables by CPU and key. Calls that cannot be folded (arithmetic that may
// overflow, no room for another group, a state in which a program was
// interrupted, a closed pane) become rows as usual, so that both together are
// exact. There are two slots of states, for two ranges of time;
// program.Aggregator describes how one is read while calls update the other.
//
// The packages below and this one. Each may import those before it:
//
//	abi        the numbers that the programs in the kernel and user space agree on
//	attach     links of the kernel between programs and instructions, leases on files
//	selection  the modules, functions and processes that a query means
//	calls      what is observed of a function's calls, how values are read, what it costs
//	program    a query's programs and maps in the kernel, and what they aggregate
//	decode     from the ring to rows
//	resolve    what is probed for a query on this machine
//	uprobe     the provider and its sources: what is attached, when, and for which query
//
// decode and resolve do not import each other.
//
// The programs report the object of a method call as two words of memory, which
// are pointers to virtual tables if there is an object; receivers determines
// its class from the modules (symbols.Classes).
//
// The caller and the stack of a call are recorded when its event is sent, which
// may be at the return (caller.h, copy.h): the return address, and a copy of
// the stack memory, which package stack unwinds as it does for samples; the
// reader waits for it. The kernel does not follow frame pointers, although Go's
// code and some C code have them everywhere: this was measured, and is not
// clearly cheaper. The measurements, in ns for each call at 4, 11, 23 and 63
// frames of a C program with frame pointers, where a record without a stack
// takes 575:
//
//   - Copied: 1,090 to 1,120, 1,270 to 1,480, 2,040 to 2,180 and (cut off at
//     8 KiB) 2,270 to 2,510.
//   - The kernel's own walk, bpf_get_stack or bpf_get_stackid: 1,230, 1,470,
//     1,900 and 3,240.
//   - A walk by a program that ends where a module has no frame pointers and
//     copies the rest, so that tables can prove each frame in user space: 1,300,
//     1,320, 1,630 and 2,870.
//
// Reading the thread's memory takes the kernel 25 ns for two words and 60 for
// 512 bytes.
//
// Values behind pointers are read first without waiting and, where that fails because the
// memory is not present, again by a sleepable program that waits for it (wait.h of package
// bpf). All programs that read memory are therefore sleepable, where the kernel has such
// programs: this was measured, and costs a call nothing (799 to 817 ns for a record with a
// text before, 784 to 812 since). While one waits the kernel detaches no uprobe.
//
// A source whose rows tell a context (CREATE CONTEXT) has another one that follows it, which
// notes in maps that both share what each thread, goroutine and coroutine is inside of
// (context.go; context.h and opening.h of package bpf). Where that is known, a row carries the key.
//
// Allocations and deallocations are calls of the functions listed by package
// allocators. Only the outermost of nested calls become rows.
//
// Methods of Java and functions of Python have no addresses. The virtual machine or the
// interpreter passes marked places (USDT) at each of their calls, with the names; calls that
// are so reported become events of the same streams (resolve/reported.go; reported.h of package
// bpf).
//
// Probes are attached by the best kind of link that the kernel has, or by the
// one requested (attach.Kind); the programs are the same. Package calibrate
// measures the cost of a probe once for each machine (costs). These costs
// decide between instructions, and are shown by EXPLAIN.
//
// Where a query only counts calls, functions whose calls follow from those of
// others by the program's code have no probe (codesite.Code.CallSources): each
// state or event of a function also counts for the functions inferred from it.
// Their calls are counted with the caller's, some instructions before they
// happen.
//
// Guarantees:
//
//   - A call is one row, or in one state, or is counted: as lost (the ring was
//     full, too many calls were under way), as unfinished (it did not return:
//     longjmp, exception, panic, exit, detached first), or as skipped (its return
//     could not be awaited safely).
//   - In function_call, the events of a thread, goroutine or coroutine arrive in
//     the order in which they happened, and where some are missing a GAP precedes
//     the next; a loss without a later event is only counted. Each ENTER is
//     followed by its LEAVE or UNWIND at the same depth, unless the query ended
//     first. The stream begins and ends for all functions at one instant.
//   - A query's probes are detached when it ends, and at the latest when this
//     process dies.
//   - A function that is not known to be safe to probe is not probed, and is
//     reported by name.
//
// Returns are observed in two ways. The kernel's return trap replaces the return
// address of a call: this is cheap, and allowed only where no other code reads
// that address (symbols.ReturnTrap). Everywhere else, or where the session
// requests it, the instructions by which a function leaves are probed. Calls are
// then paired by the location of their return address, in Go by its distance
// from the top of the goroutine's stack (exit.h). A call that leaves by a tail
// call ends with it, and its retval is NULL. Programs that copy stacks back and
// forth (greenlets) may have their calls in one frame mistaken for each other.
// Where depth is read, and for function_call, all functions of a query are
// observed in one way. Depth counts the calls of a thread, goroutine or coroutine;
// a goroutine's calls of C start at depth zero again.
//
// Coroutines of C and C++ are stacks between which a thread switches. Where the
// nesting of calls matters, the instructions of the target that load another
// stack's pointer (codesite.Code.Switches) are landmarks, and each stack has its
// own list of calls (coroutines.h). Exits are then probed, since traps are not set
// on such stacks.
//
// Calls that were left without returning are detected in three ways: by
// landmarks, which are places in the run-time support of languages that are
// passed then (longjmp, GCC's unwinder, functions of Go's runtime); by the end
// of their thread; and at the latest by a call in their frames or in one further
// out.
//
// Not guaranteed: a call that is under way when a query ends keeps the kernel's
// return trap until it returns, which costs one more trap and no row. Where
// returns are trapped, other processes that execute the same file pay for a
// trap at each entry, even if the target is one process; a forked child does so
// until it calls exec. On kernels without sessions (before Linux 6.13) the
// kernel sets its return trap before a program can examine the stack: programs
// that switch stacks with code of their own should be observed by exits there
// (SET return_probes). Where the C library or Boost switches stacks, exits are
// probed without being requested (symbols.ReturnTrap).
//
// Where only entries or exits are probed, and the target is a process given by
// pid, a link is restricted to that process. When a thread other than its leader
// calls exec, such links are attached again (executions, reattach): calls of the
// new program until then are missing, and counted as lost.
//
// Children of the target's processes (plan.Target.Follow) are followed in the kernel
// (follow.h): each query has a table of the processes that it follows, to which the
// tracepoint of fork adds a child before it runs, and from which the tracepoint of exit
// removes a process before its pid is used again. Links cannot be restricted to processes
// that do not exist yet, so that all processes of a file have the probes, with any kind of
// link. Where children are not followed, the same table counts them.
//
// Perf events, used on kernels before Linux 6.6, cover all processes that
// execute the file, and detaching them takes the kernel 0.1 s each.
//
// A source may be put behind a gate, and open those of others (package gate;
// probes/bpf/gate.h): its programs check the gate first. Where the gate is shut
// for long, the probes may be detached, and attached again later; source.flip is
// held meanwhile, and acquired before Provider.mu.
//
// The events of function_call may be recorded in the kernel instead (Options.Record; package
// recall, recall.h): the programs write them to a ring of the thread, goroutine or coroutine,
// and those of another source (Options.Recall) exchange the ring for a free one when they send
// a row. A goroutine of the recording source makes rows of the exchanged rings. Both run in
// one trap; the one that is attached last runs first.
//
// Goroutines and locks. [Provider] has one mutex, held while probes are attached
// and detached; the reader never acquires it. The reader owns routes and
// subscriptions; other goroutines change them by commands that it executes
// between two drains. A source whose processes have ended stops on a goroutine
// of its own. Finished panes are collected on another. Probes attached for
// measuring are detached by goroutines that [Provider.Close] waits for.
// executions has a goroutine that acquires Provider.mu, and a mutex that is
// acquired under it. A source has a goroutine that ends it when it costs more than
// max_overhead (overhead.go), and ends when the source has. A source with a budget has a
// goroutine, the slicer, which alone decides what is attached; links are closed by others
// (always.go: functions move from one link to another without a call missed).
// Aggregator.Mu is held while a slot is read (and while a source is divided,
// which waits for the reader). It is acquired under Provider.mu, never the other way round. source.listing is held while the list
// of sites is made; nothing else is acquired meanwhile.
//
// The package must not know how predicates are evaluated (it receives a
// [Matcher]), nor which code consumes the rows.
package uprobe
