// Package estimate computes what the whole of a stream was from what was seen of it in
// slices of time, with intervals that contain the truth as often as they claim.
//
// A place (a function that is probed) is observed all the time, and then what is seen of
// it is exact; or in slices, each short, one at a random moment of each period. Slices of
// a place are dealt in turn to [Replicates] random groups. An aggregate keeps one state for
// each place and replicate. The estimate weights all of them; the variance is that of the
// estimates which leave one replicate out (the delete-a-group jackknife; Kott, Journal of
// Official Statistics 17, 2001). It therefore needs no formula for each aggregate, and
// knows nothing of how hits are distributed in time.
//
//	[Exposure]    how much of a place's activity was seen; its weights
//	[Total]       COUNT, SUM of values that are not negative, RATE, HISTOGRAM
//	[Value]       AVG, STDDEV, ratios, SUM of any values: a function of weighted states
//	[Proportion]  the share of values below a threshold, for QUANTILE
//
// Activity is measured in progress, a quantity that the target makes whether it is
// observed or not, such as its processor time without that of the probes. A slice in
// which probes slow the target has less progress and fewer hits, so that their ratio
// remains. What is not known of the progress widens the intervals (Exposure.Slowdown).
//
// Fewer than [LeastSlices] slices or replicates with anything in them give no interval:
// heavy tails that have not been seen yet cannot be allowed for.
//
// It must not know SQL, batches, probes, or who merges states.
package estimate
