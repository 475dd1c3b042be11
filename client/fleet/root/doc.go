// Package root reaches the hosts of a fleet over NATS: it publishes statements for their
// agents (server/fleet), and receives what they send. Package fleet combines that, as it
// does for hosts with a connection each.
//
//	statement ─► session ─► bucket of queries ─► agents
//	                 │
//	fleet.Collect ◄─ published ◄─ hostResult, one for each start of a host's agent ◄─ bus
//
// directory knows the hosts, by their descriptions and heartbeats. published sends leases
// each second, acknowledges what was received and asks for what is missing.
//
// Goroutines: NATS calls published.receive and directory.heard, one message of a
// subscription at a time. published.lead sends leases and acknowledgements; it ends with
// Close. Locks: published.mu, under which directory.mu may be taken; neither is held while
// NATS is called. feed.mu may be held when these are taken.
//
// Reduce makes a reducer merge what the hosts of shards send. reducer follows the bucket of
// queries, and has one goroutine for each shard (hold), which owns that whenever no other does
// (tenure). feed receives what the hosts of a shard send. For each query and shard, a reduction
// merges that by package fleet, and sends states to the root as a host does, if the shard is
// owned here, or else keeps them, to take over. It has one goroutine (run), and one that reads.
// At the root shard accepts the states of the newest epoch; where no reducer is left, the root
// has reductions itself.
//
// Keep makes a reducer of the fleet the root of standing queries: keeper follows the bucket of
// queries, and has one goroutine for each query (run). That waits until no other reducer keeps
// the query (tenure), and stores what these add to its results (records); then it adds to them
// itself, while one goroutine renews the tenure and one reports how the query is doing. All end
// with Keep.
//
// It must not know how results are combined.
package root
