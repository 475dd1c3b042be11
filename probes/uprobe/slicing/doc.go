// Package slicing decides which functions of a query with a budget are observed all the
// time, and which in slices of time, and keeps account of what the slices have seen.
//
// Probes slow what they count. A slice therefore counts calls for the progress of the
// program, its processor time without that of the probes, and not for time; and the progress
// of all the time in which a function was observed in slices is measured, too
// (operators/estimate.Exposure).
//
//   - Rare functions are observed all the time: the cheapest, as long as all of them together
//     take at most a part of the budget. Their calls are exact.
//   - The others are divided into groups that slow the program by little (MostDilation), and
//     one function that alone slows it more is a group of its own. In each round every group
//     has one slice, at a random moment of its part of the round; the order is random.
//   - The length of the slices and the rounds stay the same in a series. When they change, a
//     new series begins, which is another place for the estimate: a share that followed
//     the load would see less of what is dear.
//
// The price of a hit is not known exactly: it depends on the caches of the program. What
// that leaves uncertain about the progress in slices is the slowdown and the speedup of the
// exposure ([LeastPrice], [MostPrice]). A function that is called so often that the probe
// may have taken the whole slice has no upper bound.
//
// It must not know the kernel, links, programs, or rows.
package slicing
