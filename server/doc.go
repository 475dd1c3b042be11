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
// Sources that run the first stage of an aggregate (probes.Aggregator) give
// partial rows, of which a full queue merges those of one group, and drops none
// before it is full of groups. They are asked for them, in goroutines of the
// collector, before each result that is not the last.
//
// A trigger is a query whose last operator is an operators.Trigger, and actions
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
// Locks: Engine.mu (queries by id, triggers by name) and Session.mu (target,
// settings) are never held while a source is started or stopped; queue.mu is
// innermost.
//
// It must not know how results are shown, nor the details of any probe.
package server
