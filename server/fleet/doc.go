// Package fleet is the agent of a fleet: it joins this host to a bus, without an open
// port, and executes the queries that it finds there.
//
//	bucket of queries ─► Agent ─► run ─► session of the engine ─► ExecuteShare
//	                                │ items: rows, states           │
//	                root ◄── Outbox ◄─────────────────────────────── result
//
// A query is text, which the engine plans under its own catalog and the grant of the
// query's author. The agent reads the bucket without a consumer: it subscribes to the
// changes first, and then reads everything; again whenever a sequence number is missing.
// A query ends by itself, with its tombstone, or when its root's leases stop.
//
// Goroutines: Agent.Run handles all messages of the bus, and starts one goroutine (run)
// for each query, which alone uses its session, its result and its outbox, and one that
// reads the result. Each question has its own. All end with Run.
// Locks: Agent.mu protects what heartbeats and descriptions report; no other is taken under
// it.
//
// It must not know how statements are planned or executed, except for which hosts a standing
// query chooses, nor how results are merged.
package fleet
