// Package rates estimates how often functions of running programs are called,
// before they are probed, without ever probing all of them at once.
//
// A [Meter] samples where the processors are: that tells which functions are
// hot, and how busy the program is, while the caller still reads symbols. Then
// it counts calls exactly, a few dozen functions at a time and for a few
// milliseconds, the hottest first, and stops as soon as it knows enough. Of the
// functions that no sample met it counts a few, chosen at random, and takes
// those for all.
//
// Probes slow down what they count. How much less a program does meanwhile is
// seen from the share of the samples in its own code, by which counts are
// corrected. On a busy machine a program does as much less as others leave it
// less of the processors, which differs from one moment to the next: rates are
// told as if it had those that it wants, by what the scheduler says of its waits.
//
// The package must not know what a function is called, nor why one asks: it is
// given places in files, and prices.
package rates
