// Package codegen generates programs for the kernel: for a condition a function
// that decides whether an event is wanted, for the first stage of an aggregate
// functions that fold an event into the state of its group.
//
// # Conditions
//
//	thread_name = 'io' AND duration > 1s AND to_ms(duration) % 2 < 1
//	└── Entry ───────┘     └── Return ─┘     └── Residual ─────────┘
//
// A condition is tested as early as is exact:
//
//   - Entry tests what is known when the call begins, so that the return of an
//     unwanted call need not be observed.
//   - Return tests what is known when it ends.
//   - Residual is what the kernel cannot decide (DOUBLE, most text functions),
//     or not always (arithmetic that may overflow). The engine tests it on the
//     events that passed.
//
// The condition is brought into negation normal form, in which each elementary
// test asks whether something certainly holds. Replacing a test in such a
// formula by true can only make the formula true more often. Each program is
// therefore the whole condition, with unknown tests replaced by true: for (arg0
// = 1 AND duration > 1s) OR arg0 = 2 the entry program is arg0 = 1 OR arg0 = 2.
// NULL needs no value of its own, since NOT asks whether its argument is
// certainly false.
//
// Conditions on the names of functions, in any form, are evaluated in user
// space, once per function; the program tests a bit (Layout.Fact).
//
// Errors are preserved: an event at which the engine's evaluation would fail is
// passed to the engine, which evaluates the condition and fails. So nothing to
// the right of a test that may fail is decided before it.
//
// # Aggregates
//
// An Aggregate has two functions. Derive computes everything needed before a
// change: the group's key, the buckets of sketches, the results of filters, and
// the arguments whose arithmetic may fail. Update folds the arguments into the
// state. An event at which Derive fails has changed nothing, and is passed to
// the engine, which evaluates it completely.
//
//	AVG(x), STDDEV(x), COUNT(*) FILTER (WHERE y > 0)
//
//	state: lock | events | Σx (2 words) | Σx² (3 words) | events with y > 0
//
// A key is an integer, a name, a value determined by the function, or one of
// few values: TRUE, FALSE or NULL, or those of a CASE between constants.
//
// Aggregates of the same argument and filter share their words; a single count
// is one word, which needs no Update and no lock. All words are sums, minima or
// maxima, so states merge in any order. HISTOGRAM and QUANTILE are counts of
// (group, bucket), with the bucket numbers of package operators; logarithms are
// looked up in a table of integer boundaries (Boundaries).
//
// If the kernel cannot compute some part of an aggregate, the engine computes
// all of it: computed text, DOUBLE, values that may be NULL, conditions that
// are not wholly decided here.
//
// The caller defines the memory layout that programs read. The package must not
// know probes, maps, or how a program is loaded.
package codegen
