// Package fleet makes several engines one: a statement goes to all, and what they
// give comes back as one result, with a column host.
//
//	statement ─► split ─┬► host a ─► rows ─┐
//	                    └► host b ─► rows ─┴► host column │ merge (second stage) ─► result
//
// Aggregates are merged: each host computes the first stage (plan.AggStages), and
// the second one is a query of its own over what they give, planned and executed
// here. With GROUP BY host every host has its own, whatever the aggregate is. Rows
// of different hosts come as they arrive, with the times of their own clocks: the
// footer says how far these may be apart.
//
// A host that cannot be reached, or is lost, is marked in the footer and not waited
// for. A goroutine for each host reads its result; they meet in one channel.
//
// It must not know the network, nor how results are shown.
package fleet
