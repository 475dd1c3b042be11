// Package approx computes the results of a group from states by place and replicate: of a
// source with a budget (plan.Budget), which sees most places only in slices of time.
//
//	[Places]  the exposure of each place, which arrives as states without events
//	[Group]   the states of a group; its estimates with intervals
//
// An accumulator offers what its estimate needs by an interface of package fold.
//
// It must not know how states arrive, nor how estimates are displayed.
package approx
