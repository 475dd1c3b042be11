// Package server is the engine: sessions, the dispatch of their statements, and
// the connection of planner, operators and probes.
//
//	statement ─► parser ─► planner ─► Prepare sources ─► Build operators
//	                                        │ Start             ▲
//	                                        ▼                   │ one goroutine
//	                                  feed ─► queue (bounded) ──┘
//	                                                            ▼
//	                                                     result (wire.Result)
//
// The packages below it do not know it:
//
//	query          one running plan: its phases, its loop, its result
//	flow           the edges of a query: feeds, queue, outlet, and what is lost there
//	sharing        one source for queries with the same acquisition
//	gating         which inputs of a join are acquired only behind a gate
//	placement      which operators of a query the client executes
//	trigger        triggers, their actions and their streams
//	export         standing queries for Prometheus and OTLP
//	standing       the results of standing queries of a fleet, and their streams
//	introspect     sys.* and descriptions of a program
//	doctor         what the machine and a program lack for streams
//	store          what outlives the engine: definitions and models
//	answer         tables, messages and refusals
//	handlerstream  the streams of event handlers
//
// Goroutines of a query: each source has its own, which calls a feed. A feed
// never blocks a live source: a full queue drops and counts. One runner
// goroutine takes batches from the queue and drives all operators; no other
// goroutine uses them. The client reads events from a bounded channel; a slow
// client makes the runner wait, and so, in the end, the feeds drop.
//
// For a remote client that can execute fragments of plans, the query is divided
// (distribute.Divide). The server receives the statement, plans it itself, and
// sends the fragment. See package placement.
//
// A session's permissions and limits are its grant (package grant, permit.go).
// They are enforced when the session runs a plan, and what may be observed is
// enforced again by the programs in the kernel. Who may see and end a query or
// a definition depends on its owner.
//
// Goroutines: session.startQuery starts one that removes a query that has
// ended; nothing waits for it. Those of the packages below are in their doc.go.
//
// Locks are taken in this order; those of one group are never held together,
// and those of a group below another may be taken while one of that is held.
// Sources are started and stopped, and files written, under locks of the first
// group only. A trigger's name (Registry.Claim) belongs to that group, too,
// while the trigger is created, replaced or dropped; so does an export's and a context's. So do the locks of store,
// sharing, gating and query that are in the first group of their doc.go. Then
// follow
//
//	Engine.mu            queries, totals
//	session.mu           target, settings, open queries
//
// with the other locks of trigger, store and query, and then those of flow.
// Locks of other packages (catalog's lists, uprobe.Provider.mu and those in its
// doc.go, grant.Account) are taken last. A source calls its sink under none of
// its locks except those that exist for that.
//
// It must not know how results are displayed, nor the details of any probe.
package server
