// Package server is the engine: sessions, the life of a query, and what brings
// planner, operators and probes together.
//
//	statement ─► parser ─► planner ─► Prepare sources ─► Build operators
//	                                        │ Start             ▲
//	                                        ▼                   │ one goroutine
//	                                  feed ─► queue (bounded) ──┘
//	                                                            ▼
//	                                                     result (wire.Result)
//
// Goroutines of a query: each source has its own and ends in a feed, which
// never blocks a live source: a full queue drops and counts. One runner
// goroutine takes batches from the queue and drives all operators; it alone
// touches them. The client reads events from a bounded channel; a slow client
// makes the runner wait, and so, in the end, the feeds drop.
//
// A client elsewhere that can execute fragments of plans has a query divided
// (planner.Divide): filters, projections and the first stage of an aggregate are
// executed here or there, what is above them there. The server is sent the statement,
// and plans it itself; it sends the fragment. Once a second placement compares what it
// costs the server to end its share here or there, N·Ttup + N'·Tnet, of what it
// measures, and moves operators between two batches of the runner: what the first
// stage has folded until then goes ahead of the rows that follow, so that each row is
// in the result once. What cannot be merged, such as an encoder, does not move: it is
// executed here, or, with SET placement = 'client', there.
//
// A query has a phase: prepared, loaded, standby, running, ending, done, or abandoned
// before it ran (query_state.go). Which steps may be taken follows from that alone.
// Shares, their parts and sets of gates have phases of their own.
//
// Sources that run the first stage of an aggregate (probes.Info.Aggregates) give
// partial rows, of which a full queue merges those of one group, and drops none
// before it is full of groups. They are asked for them, in goroutines of the
// collector, before each result that is not the last.
//
// A trigger is a query whose last operator is a graph.Trigger, and actions
// (trigger.go): those that acquire have a query each that stands by, with its
// probes attached unless that is too dear (trigger_vigil.go), and a goroutine that
// arms it and ends it (trigger_acquire.go), or one behind a gate that is opened and
// shut (trigger_shut.go); WEBHOOK has a goroutine that delivers. The
// runner of the trigger's query waits for none of them.
//
// Queries whose leaves acquire the same have a part each in one source (share):
// its goroutine gives to the feeds of all of them.
//
// Where a join allows it, one input is acquired only behind a gate that the other
// opens (gating): a goroutine compares the plans once a second, and changes gates.
//
// What a session may do and use is its grant (package grant, permit.go): it is held
// to where a plan meets the session, and what may be observed again by the kernel's
// programs. Whose a query or a definition is decides who sees it and may end it.
//
// Goroutines, by who waits for them:
//
//	query.run            the runner; query.done. It waits for those that stop the
//	                     sources (query.disarm), the collector's and gating's
//	collector.ask        one round of Collect; collector.asking
//	gating.run, .flips   one, and one for each edge that detaches; gating.done
//	session.startQuery   forgets a query that has ended; nobody
//	trigger.run          trigger.over. It waits for its query and for its actors
//	acquirer.run, .come  acquirer.done; come prepares, and run takes what it made
//	acquirer.relieve     discards what stood by; acquirer.discarding
//	shutter.run          shutter.done; its timer calls expire
//	webhook.run, .finish webhook.done; finish gives up those that take too long
//	sysSource, triggerSource   Stop of each
//
// Locks are taken in this order; those of one line are never held together, and
// those of a group below another may be taken while one of that is held. Sources
// are started and stopped, and files written, under those of the first group alone.
//
//	a trigger's name     (Engine.claim) while it is made, replaced or dropped
//
//	Engine.mu            queries, triggers, owners, totals
//	session.mu           target, settings, open queries
//	acquirer.mu          what is wanted of an action
//	shutter.mu           whether its gate is open
//	ledger.mu            the queries of a trigger
//	lastError.mu         what went wrong with it
//
//	triggerStream.mu     while a trigger's rows are handed on
//
//	triggerSource.mu     while it gives, as those that follow
//	inbox.mu             a session's rows of triggers
//
// What belongs to packages below (catalog's lists, uprobe.Provider.mu and what it
// says there, grant.Account) is taken last; a source's calls of a sink are made
// under none of theirs but the ones that are there for that.
//
// It must not know how results are shown, nor the details of any probe.
package server
