// Package rates estimates how often functions of running programs are called,
// before they are probed, without ever probing all of them at once.
//
// A [Meter] samples what the processors execute: that shows which functions are
// hot, and how busy the program is, while the caller still reads symbols. Then
// it counts calls exactly, a few dozen functions at a time and for a few
// milliseconds, the hottest first, and stops as soon as it knows enough. Of the
// functions without samples it counts a few, chosen at random, and extrapolates
// to all.
//
// Probes slow down what they count. The slowdown is measured by the share of
// samples in the program's own code, and counts are corrected by it. On a busy
// machine a program also does less because others use the processors, which
// varies: rates are reported as if it had the processor time that it wants, by
// the scheduler's statistics of its waits.
//
// The package must not know the names of functions, nor the purpose of the
// estimate: it is given places in files, and prices.
package rates
