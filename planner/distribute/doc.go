// Package distribute divides plans between sites: the kernel and the engine, a
// server and its client, several hosts and their root.
//
//	Divide   server │ client   rows, or states of the lowest aggregate, to a fragment
//	Hosts    hosts  │ root     Gather, MergeOrdered or MergeStates, to a fragment
//
// Which part of an aggregate can be computed at another site is defined once, for
// all of them: plan.NewPartial defines the states, and rules.FirstStage how far
// below an aggregate they can be computed.
//
// It must not know how rows are transferred, nor how operators execute them.
package distribute
