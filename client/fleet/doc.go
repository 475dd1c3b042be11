// Package fleet makes one engine of several: a statement goes to all hosts, as it is
// written, and what they send comes back as one result.
//
//	statement ─┬► host a ─► lower part ─► rows, states ─┐
//	           └► host b ─► lower part ─► rows, states ─┴► exchange ─► upper part ─► result
//
// Each host plans the statement under its own catalog and policy (planner.PlanShare),
// executes the part that concerns its rows alone, and sends the rest of the plan with its
// rows (wire.Share). The upper part of one host is executed here; hosts whose contract
// differs from it (types of keys, aggregates, how results come) are declined, with the
// reason in the footer. Hosts that would give other columns refuse the statement.
//
//	Gather        rows as they come
//	MergeOrdered  rows in order of time, each host's times less by how much its clock is ahead
//	MergeStates   states of groups, which the aggregate of the upper part merges
//
// A host's states are all that it has of a group: what it sends later takes the place of
// what it sent before. They count when all those of one result have come: of a host that is lost
// in between none of them does. There is a result once; for each window or session when no host
// has more of it; with EMIT EVERY, each time that all have sent their totals; or with EMIT
// CHANGES, when a group of a host has changed.
//
// FIRST, LAST and sessions go by the hosts' times less by how much their clocks are ahead;
// the footer says how exact that is. Other windows are by each host's own clock; the footer
// says how far these are apart.
//
// A host that cannot be reached, or is lost, is marked and not waited for, nor is
// one that has said nothing for some time, not even that time has passed: hosts send
// watermarks (wire.Options.Marks). One that does not answer a question holds up the
// caller once, and hardly again before it has answered something (ask.go).
//
// Goroutines: one reads each host's result; they meet in one channel, whose other
// end is the caller of Next, to whom all other state belongs. One more asks hosts for
// their clocks; all end with the result's Close. Each question to a host has one of its
// own, which may outlive the wait for it: it ends with the question. Locks: gathered.mu
// and clocks.mu, never held together, nor while a host is asked.
//
// It must not know the network, nor how results are shown, nor write SQL.
package fleet
