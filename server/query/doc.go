// Package query runs one plan: it prepares its sources, starts and stops them, and
// drives its operators in one goroutine, the runner.
//
// A query has a phase: prepared, loaded, standby, running, ending, done, or
// abandoned before it ran (state.go). The phase alone decides which steps are
// permitted.
//
// Sources that run the first stage of an aggregate (probes.Info.Aggregates)
// deliver partial rows. A full queue merges those of the same group, and drops
// none before it is full of groups. Goroutines of the collector request them
// before each result that is not the last.
//
// Goroutines, by what waits for them:
//
//	Query.run            the runner; Query.Done. It waits for those that stop the
//	                     sources (disarm), the collector's and gating's
//	collector.ask        one round of Collect; collector.asking
//	Query.EndWith        ends with the command, or with Done
//
// Locks are taken in this order; those of one group are never held together. Locks of
// the packages sharing, gating and flow may be taken under them.
//
//	Query.leaving        while a query is removed from the list and its charges are returned
//
//	Query.reports        while a query moves to running, and while SUSPEND or RESUME is
//	                     reported; sources collect under it
//
// It must not know sessions, statements, or which client runs the query.
package query
