// Package graph builds the operators of a plan ([Build]) and holds the operators that need
// no package of their own: filter, project, limit, union, distinct, values, insert,
// CONSISTENT, and those that the builder adds (statistics, taps, tees).
//
//	plan.Node ─Build─► Graph{Leaves: what feeds which port}
//
// A leaf receives rows and, if a source aggregates them itself, partial rows that the
// aggregate merges. Each operator has one file with one test.
//
// It must not know SQL, probes, sessions or the network.
package graph
