// Package graph builds the operators of a plan ([Build]) and holds the operators that
// need no package of their own: filter, project, limit, union, distinct, values,
// insert, CONSISTENT, and those that the builder adds (statistics, taps, tees).
//
//	plan.Node ─Build─► Graph{Leaves: what feeds which port}
//
// A leaf takes rows one by one and, where a source has folded them into groups
// already, partial rows that the aggregate merges. One operator is one file with one
// test.
//
// It must not know SQL, probes, sessions or the network.
package graph
