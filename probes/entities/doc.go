// Package entities acquires entity_events and activity_events: the lifetimes of
// types, objects, threads and invocations of native programs, and the use of
// locks by threads.
//
// It attaches no probes itself. It combines other sources: threads from package
// sched; calls, locks and notifications of the dynamic linker from package
// uprobe; classes from package elf.
//
//	threads ─┐
//	calls   ─┼► merge by time ─► world: live entities and their identities ─► rows
//	locks   ─┤
//	modules ─┘
//
// A part adds its events to merge, which holds them until the watermarks of all
// parts have passed. So they reach world in order of time, whatever ring they
// came through. World is pure: it turns events into rows. One goroutine at a
// time works on both, the goroutine of whichever part delivers.
//
// For Java, the source uses the USDT probes of the machine: methods, which
// reveal their classes until these are unloaded, and waits for monitors that
// another thread holds. The machine reports neither where objects are, nor who
// takes a free monitor. The holder of a contended monitor is read from the
// machine's memory (package java), and is known as long as some thread waits.
//
// Guarantees:
//
//   - Identities are unique, though the kernel and the allocator reuse numbers and
//     addresses: tid#ticks (ticks is the creation time, so that both streams agree)
//     for threads, pid:0xaddress#n for objects, the thread's identity and a number
//     for invocations. A type has its name, and a number from its second life on.
//   - Entities that exist when the query starts are reported first, as created then:
//     threads, types, and the calls of probed functions on threads' stacks (package
//     stack reads them once, after the probes are attached; a call that is entered
//     in between is recognised by its frame). Objects are reported at their first
//     call.
//   - While reporting is suspended (probes.Suspend), calls that begin are ignored;
//     those open afterwards are found on the stacks. Lifetimes of objects are
//     reported throughout.
//   - Where events were lost, invocations and objects that may have ended end as
//     UNKNOWN, and all live entities are reported again.
//   - Memory is bounded by the number of live entities.
//
// It must not know SQL, nor the rules of consistency, which are in
// operators/consistency.
package entities
