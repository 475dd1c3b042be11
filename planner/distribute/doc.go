// Package distribute divides plans between places: the kernel and the engine, a server
// and its client, several hosts and their root.
//
//	Divide   server │ client   rows, or states of the lowest aggregate, to a fragment
//	Hosts    hosts  │ root     Gather, MergeOrdered or MergeStates, to a fragment
//
// What of an aggregate can be computed at another place is defined once, for all of
// them: plan.NewPartial says which states there are, and rules.FirstStage how far down
// an aggregate they can be made.
//
// It must not know how rows travel, nor what operators do with them.
package distribute
