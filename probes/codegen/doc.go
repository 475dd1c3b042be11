// Package codegen makes programs for the kernel of conditions: of a plan.Expr,
// the instructions of a function that says whether an event is wanted.
//
//	thread_name = 'io' AND duration > 1s AND to_ms(duration) % 2 < 1
//	└── Entry ───────┘     └── Return ─┘     └── Residual ─────────┘
//
// A condition is tested as early as possible and no earlier than is exact:
//
//   - Entry has what is known when the call begins, so that the return of an
//     unwanted call need not be observed.
//   - Return has what is known when it ends.
//   - Residual has what the kernel cannot decide (DOUBLE, most functions of
//     text), or not always (arithmetic that may overflow). The engine tests it
//     on the events that are left.
//
// The condition is brought into negation normal form, in which each elementary
// test asks whether something is surely so. Such a formula can only become
// true more often when a test is taken for passed. Each program is therefore
// the whole condition, with what is not known there taken for passed: from
// (arg0 = 1 AND duration > 1s) OR arg0 = 2 the entry's program is
// arg0 = 1 OR arg0 = 2. NULL needs no value of its own, since NOT asks whether
// its argument is surely false.
//
// Conditions on the names of functions, in whatever form, are evaluated in
// user space, once for each function; the program tests a bit (Layout.Fact).
//
// Errors stay what they are: an event for which the engine's evaluation fails
// is given to the engine, which evaluates the same again and fails. For that
// nothing to the right of a test that may fail is decided before it.
//
// The package knows the layout of what programs look at from its caller. It
// must not know probes, maps, or how a program gets into the kernel.
package codegen
