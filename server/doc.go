// Package server is the engine: sessions, the dispatch of their statements, and what
// brings planner, operators and probes together.
//
//	statement ─► parser ─► planner ─► Prepare sources ─► Build operators
//	                                        │ Start             ▲
//	                                        ▼                   │ one goroutine
//	                                  feed ─► queue (bounded) ──┘
//	                                                            ▼
//	                                                     result (wire.Result)
//
// Beside it are its rooms, which do not know it:
//
//	query          one running plan: its phases, its loop, its result
//	flow           the edges of a query: feeds, queue, outlet, and what is lost there
//	sharing        queries that acquire the same have one source
//	gating         which inputs of a join are acquired only behind a gate
//	placement      which operators of a query the client executes
//	trigger        triggers, their actions and their streams
//	introspect     sys.* and what there is to say of a program
//	store          what outlives the engine: definitions and models
//	answer         tables, messages and refusals
//	handlerstream  the streams of event handlers
//
// Goroutines of a query: each source has its own and ends in a feed, which never blocks
// a live source: a full queue drops and counts. One runner goroutine takes batches from
// the queue and drives all operators; it alone touches them. The client reads events
// from a bounded channel; a slow client makes the runner wait, and so, in the end, the
// feeds drop.
//
// A client elsewhere that can execute fragments of plans has a query divided
// (distribute.Divide). The server is sent the statement, and plans it itself; it sends
// the fragment. See package placement.
//
// What a session may do and use is its grant (package grant, permit.go): it is held to
// where a plan meets the session, and what may be observed again by the kernel's
// programs. The owner of a query or a definition decides who sees it and may end it.
//
// Goroutines: session.startQuery forgets a query that has ended; nothing waits for it.
// Those of the rooms are in their doc.go.
//
// Locks are taken in this order; those of one group are never held together, and those
// of a group below another may be taken while one of that is held. Sources are started
// and stopped, and files written, under those of the first group alone; a trigger's name
// (Registry.Claim) belongs to it, too, while the trigger is made, replaced or dropped.
// Of the rooms, those of store, sharing, gating and query that are in the first group
// of their doc.go are of the first group; then come
//
//	Engine.mu            queries, totals
//	session.mu           target, settings, open queries
//
// with the rest of those of trigger, store and query, and then those of flow. What
// belongs to packages below (catalog's lists, uprobe.Provider.mu and what it says there,
// grant.Account) is taken last; a source's calls of a sink are made under none of theirs
// but the ones that are there for that.
//
// It must not know how results are shown, nor the details of any probe.
package server
