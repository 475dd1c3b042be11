// Package trigger implements CREATE TRIGGER: a query whose tuples activate
// actions. A Registry holds the triggers of an engine by name, and a Host runs
// their queries.
//
// Each action that acquires has a standby query, with its probes attached
// unless that costs too much (CostMonitor), and a goroutine that arms and ends
// it (Acquirer), or a query behind a gate that is opened and shut (Shutter).
// WEBHOOK has a goroutine that delivers. The runner of the trigger's query
// waits for none of them.
//
// Goroutines, by what waits for them:
//
//	Trigger.Run          Trigger.Over. It waits for its query and for its actors
//	Acquirer.run         Acquirer.done
//	Acquirer.prepareNext run takes what it made
//	Acquirer.armLate     abandons the standby query; Acquirer.discarding
//	Shutter.run          Shutter.done; its timer calls expire
//	webhook.run, .finish webhook.done; finish gives up those that take too long
//	source.Start         sends watermarks; source.marks
//
// Locks are taken in this order; those of one group are never held together.
//
//	Registry.mu          triggers, their names and what they read and write
//	Acquirer.mu          the wanted state of an action
//	Shutter.mu           whether its gate is open
//	ledger.mu            the queries of a trigger
//	lastError.mu         what went wrong with it
//
//	Stream.mu            while a trigger's rows are passed on
//
//	source.mu            while it delivers, like the next one
//	Inbox.mu             a session's rows of triggers
//
// It must not know sessions, nor how statements are planned or permitted.
package trigger
