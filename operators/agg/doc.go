// Package agg executes GROUP BY: it assigns rows to groups, folds them into
// aggregate functions and emits results by EMIT and by window.
//
//	batch ─grouping.Table─► group of each row ─fold.Accumulator─► state ─► result
//
// It also implements both stages of an aggregation in two stages: [FirstStage]
// folds rows into partial rows, [NewPartials] and [MergePartials] merge them. Each
// aggregate function has its own file.
//
// It must not know how a plan is built, nor where partial rows were made.
package agg
