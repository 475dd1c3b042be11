// Package agg executes GROUP BY: it assigns rows to groups, folds them into
// aggregate functions and gives results by EMIT and by window.
//
//	batch ─grouping.Table─► group of each row ─fold.Accumulator─► state ─► result
//
// It also has both ends of an aggregation in two stages: [FirstStage] folds rows into
// partial rows, [NewPartials] and [MergePartials] merge them. One aggregate function is
// one file.
//
// It must not know how a plan is built, nor where partial rows were made.
package agg
