// Package fleet combines several engines into one: a statement goes to all hosts
// unchanged, and what they send is combined into one result.
//
//	statement ─┬► host a ─► lower part ─► rows, states ─┐
//	           └► host b ─► lower part ─► rows, states ─┴► exchange ─► upper part ─► result
//
// Hosts have a connection each (Engine), or a bus carries the statement to all of them at
// once (Collect, with package root). From there on there is one way: a host is a part with
// a result, wherever that comes from. Hosts of a bus are many: one that refuses is left
// out, and one that begins later, or again, becomes a part of the running result.
//
// Each host plans the statement under its own catalog and policy
// (planner.PlanShare), executes the part that concerns only its own rows, and
// sends the remaining plan with its rows (wire.Share). The upper part of one host
// is executed here. Hosts whose contract differs from it (types of keys,
// aggregates, how results arrive) are declined, with the reason in the footer. A
// host that would return other columns refuses the statement.
//
//	Gather        rows as they arrive
//	MergeOrdered  rows in order of time, each host's times less its clock offset
//	MergeStates   states of groups, which the aggregate of the upper part merges
//
// A host sends all its states of a group: later ones replace earlier ones. They
// count when all states of one result have arrived; if a host is lost in between,
// none of them counts. There is one result; or one for each window or session,
// when no host has more rows of it; with EMIT EVERY, one each time that all hosts
// have sent their totals; or with EMIT CHANGES, one when a group of a host has
// changed.
//
// The windows of a standing query (Standing) have revisions, and hosts keep theirs until
// they are stored.
//
// Reduce merges the states of some hosts into states of the same columns, for a root that
// combines these (Reduced). A shard, of such hosts, is one part of that root's result, and its
// summary says what is missing of which hosts.
//
// FIRST, LAST and sessions use the hosts' times less their clock offsets; the
// footer says how exact that is. Other windows use each host's own clock; the
// footer says how far these differ.
//
// A host that cannot be reached or is lost is marked and not waited for. The same
// holds for a host that has sent nothing for some time, not even a watermark
// (wire.Options.Marks). A host that does not answer a question delays the caller
// once, and hardly again before it has answered something (ask.go).
//
// Goroutines: one reads each host's result, and one waits for hosts that join. All
// send to one channel, which the caller of Next receives from; that caller owns all
// other state. One more asks hosts for their clocks. All end with the result's Close. Each question to a host
// has its own goroutine, which may outlive the wait for it and ends with the
// question. Locks: gathered.mu and clocks.mu, never held together, nor while a
// host is asked.
//
// It must not know the network, nor how results are displayed, nor write SQL.
package fleet
