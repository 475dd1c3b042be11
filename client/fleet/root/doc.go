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
// NATS is called.
//
// Keep makes a reducer of the fleet the root of standing queries: keeper follows the bucket of
// queries, and has one goroutine for each query (run). That waits until no other reducer keeps
// the query (tenure), and stores what these add to its results (records); then it adds to them
// itself, while one goroutine renews the tenure and one reports how the query is doing. All end
// with Keep.
//
// It must not know how results are combined.
package root
