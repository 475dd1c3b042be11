// Package fleet makes several engines one: a statement goes to all, and what they
// give comes back as one result, with a column host.
//
//	statement ─► split ─┬► host a ─► rows ─┐
//	                    └► host b ─► rows ─┴► host column │ in order of time
//	                                        or second stage │ once, by window, by round ─► result
//
// Aggregates are merged: each host computes the first stage (plan.AggStages), and
// the second one is a query of its own over what they give, planned and executed
// here: once; for each window or session when no host has more of it; with EMIT EVERY,
// each time that all have given their totals; or with EMIT CHANGES, when a group of a
// host has changed. With GROUP BY host every host has its own, whatever the aggregate
// is; so it has where one only makes sense within a host, as encoded sequences do.
//
// Rows that have a timestamp come in its order, each host's times less by how much its
// clock is ahead; so do FIRST and LAST, and what makes a session. The footer says how
// exact that is, and how many came too late for it. Other windows are by each host's own
// clock; the footer says how far these are apart. What would be each
// host's own where the statement means all is refused, also where it stands behind the
// name of a stream that somebody has defined.
//
// A host that cannot be reached, or is lost, is marked and not waited for, nor is
// one that has said nothing for some time, not even that time has passed: hosts give
// watermarks (wire.Options.Marks). One that does not answer a question holds up who
// asks once, and hardly again before it has answered something (ask.go).
//
// Goroutines: one reads each host's result; they meet in one channel, whose other
// end is the caller of Next, to whom all other state belongs. One more asks hosts for
// their clocks; all end with the result's Close. Each question to a host has one of its
// own, which may outlive the wait for it: it ends with the question. Locks: gathered.mu
// and clocks.mu, never held together, nor while a host is asked.
//
// It must not know the network, nor how results are shown.
package fleet
