// Package consistency keeps the reported part of a program's events consistent, however few
// events are selected: "Methods and apparatus for partial and consistent monitoring of
// object-oriented programs" (US patent; rules (i) to (v) of its summary, report event tree
// of its figure 4, consistent monitoring of its figure 5).
//
// Events refer to entities (types, objects, threads, invocations) by identities that are
// valid as long as the entity: the address of a freed object may be reused by another. A
// [Keeper] sees every event and whether it is selected. It reports the selected events, and
// as many of the others as are needed so that
//
//  1. an entity is created before it is reclaimed;
//  2. what happens to an entity lies between its creation (a type's: its load)
//     and its end;
//  3. an entity that was reported does not end unreported;
//  4. no invocation is reported without the invocation in which it was made;
//  5. a thread's use of a lock is well-formed: it releases what it has
//     acquired and ends waits that it has begun.
//
// A keeper has no clock and no goroutines. Its memory is bounded by the live entities and by
// a limit, beyond which entities are reported as [Unknown].
//
// It must not know batches, SQL, or the source of the events.
package consistency
