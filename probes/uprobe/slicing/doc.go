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
//   - The others are divided into groups that slow the program by little (MostDilation), or by
//     as much as needed so that a round of slices does not take too long; one function that
//     alone slows it more is a group of its own. In each round every group has one slice, in
//     random order and after random gaps.
//   - Slices are taken as the budget earns them ([Account]). Groups stay the same in a series.
//     When they change, a new series begins, which is another place for the estimate.
//
// The price of a hit is not known exactly: it depends on the caches of the program. What
// that leaves uncertain about the progress in slices is the slowdown and the speedup of the
// exposure ([LeastPrice], [MostPrice]). A function that is called so often that the probe
// may have taken the whole slice has no upper bound.
//
// It must not know the kernel, links, programs, or rows.
package slicing
