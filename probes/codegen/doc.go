// Package codegen makes programs for the kernel: of a condition the
// instructions of a function that says whether an event is wanted, of the first
// stage of an aggregate those that fold an event into the state of its group.
//
// # Conditions
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
// # Aggregates
//
// An Aggregate has two functions. Derive computes what has to be known before
// anything is changed: the group's key, the buckets of sketches, what filters
// come to, and the arguments whose arithmetic may fail. Update folds the
// arguments into the state. An event at which Derive fails has changed nothing,
// and is given to the engine, which fails at it or does not.
//
//	AVG(x), STDDEV(x), COUNT(*) FILTER (WHERE y > 0)
//
//	state: lock | events | Σx (2 words) | Σx² (3 words) | events with y > 0
//
// A key is an integer, a name, what the function decides, or which of few values it
// is: TRUE, FALSE or NULL, or those of a CASE between constants.
//
// Aggregates of the same argument and filter share their words; a count alone
// is one word, which needs no Update and no lock. All words are sums, least or
// greatest values, so states merge in any order. HISTOGRAM and QUANTILE are
// counts of (group, bucket), with the bucket numbers of package operators;
// logarithms are looked up in a table of integer boundaries (Boundaries).
//
// What the kernel cannot do of an aggregate makes all of it the engine's: text
// that is computed, DOUBLE, what may be NULL, conditions that are not wholly
// decided here.
//
// The package knows the layout of what programs look at from its caller. It
// must not know probes, maps, or how a program gets into the kernel.
package codegen
