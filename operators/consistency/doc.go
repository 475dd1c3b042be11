// Package consistency keeps what is reported of a program consistent, however
// little of it is selected, and checks that it is: "Methods and apparatus for
// partial and consistent monitoring of object-oriented programs" (US patent;
// rules (i) to (v) of its summary, report event tree of its figure 4, consistent
// monitoring of its figure 5).
//
// Events tell of entities (types, objects, threads, invocations), which they name
// by identities that last as long as the entity: the address of an object that is
// gone may be that of another one. A [Keeper] sees every event, and which of them
// are selected. It reports those, and as much of the others as it takes that
//
//  1. an entity is created before it is reclaimed;
//  2. what happens to an entity lies between its creation (a type's: its load)
//     and its end;
//  3. an entity that was reported does not end unreported;
//  4. no invocation is reported without that in which it was made;
//  5. what a thread does to a lock is well-formed: it releases what it has
//     acquired and ends waits that it has begun.
//
// [Check] holds what was reported to the same rules, knowing nothing of how it was
// made. Both are pure: no clocks, no goroutines. A keeper's memory is bounded by
// the entities that live, and by a limit, beyond which they are reported as
// [Unknown].
//
// It must not know batches, SQL, or where events come from.
package consistency
