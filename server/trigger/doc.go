// Package trigger implements CREATE TRIGGER: a query whose tuples activate
// actions. A Registry holds the triggers of an engine by name and owner, and a Host runs
// their queries.
//
// Each action that runs a query has an Acquirer: a wanted state, and a
// goroutine that has a query follow it. The query is a new one for each
// activation (standby), or one behind a gate that an activation opens (gated).
// Probes are attached before that, unless it costs too much (costMonitor).
// RECALL runs its query all the time, and publishes what that has of the time before an
// activation (Recaller). WEBHOOK has a goroutine that delivers. The runner of the trigger's query
// waits for none of them.
//
// Goroutines, by what waits for them:
//
//	Trigger.Run          Trigger.Over. It waits for its query and for its actors
//	Acquirer.run         Acquirer.done. The timer of FOR calls expire
//	standby.prepareNext  standby.preparing
//	standby.follow       standby.ending: queries that end or are abandoned
//	webhook.run, .finish webhook.done; finish gives up those that take too long
//	source.Start         sends watermarks; source.marks
//
// Locks are taken in this order; those of one group are never held together.
//
//	Registry.mu          triggers, their names and what they read and write
//	Acquirer.mu          the wanted state of an action; its gate is as wanted
//	ledger.mu            the queries of a trigger
//	lastError.mu         what went wrong with it
//
//	recorded.mu          activations and recalled calls, until both are there
//	kept.mu              activations, until the last samples have arrived
//	Stream.mu            while a trigger's rows are passed on
//
//	source.mu            while it delivers, like the next one
//	Inbox.mu             a session's rows of triggers
//
// It must not know sessions, nor how statements are planned or permitted.
package trigger
