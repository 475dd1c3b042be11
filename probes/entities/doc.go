// Package entities acquires entity_events and activity_events: the lives of types,
// objects, threads and invocations of native programs, and what threads do to
// locks.
//
// It attaches nothing itself, but composes what others acquire: threads from
// package sched, calls, locks and the dynamic linker's announcements from package
// uprobe, classes from package elf.
//
//	threads ─┐
//	calls   ─┼► merge by time ─► world: what lives, and its identities ─► rows
//	locks   ─┤
//	modules ─┘
//
// A part gives its events to merge, which holds them until the watermarks of all
// parts have passed: so they reach world in the order in which they happened,
// whichever ring they came through. World is pure: what it is told it turns into
// rows. One goroutine at a time works on both, whichever part's it is.
//
// Of Java there is what its machine tells at places that its authors have marked:
// methods, by which their classes are known, until they are unloaded, and waits for
// monitors that another thread has. It does not say where objects are, nor who takes
// a monitor that is free: who has one for which somebody waits is read in its memory
// (package java), and known for as long as somebody does.
//
// What is guaranteed:
//
//   - Identities say which entity is meant, though the kernel and the allocator use
//     numbers and addresses again: tid#ticks (when the thread was made, so that both
//     streams agree), pid:0xaddress#n of objects, the thread's and a number of
//     invocations. A type has its name, and a number from its second life on.
//   - What lives when it begins is told first, as created then: threads, types, and
//     the calls of probed functions that threads' stacks have (package stack looks at
//     them once, while the probes are there already: a call of which the entry came
//     in between is told apart by its frame). Objects are told when they are first
//     seen to be called.
//   - While nothing is reported (probes.Suspend), calls that begin are ignored; those under
//     way afterwards are found in the same way. Lives of objects go on to be told.
//   - Where events were lost, invocations and objects that may have ended end as
//     UNKNOWN, and all that lives is told anew.
//   - What is remembered is bounded by what lives.
//
// It must not know SQL, nor the rules of consistency: operators/consistency has
// those.
package entities
