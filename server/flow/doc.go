// Package flow is the two edges of a query: feeds, at which sources meet its operators,
// with the bounded queue between them; and the outlet, at which its result meets the
// client. It counts what is lost at either.
//
//	source ─► Feed ─► Queue (bounded) ─► operators ─► Outlet (bounded) ─► client
//
// A Feed never blocks a live source: a full queue drops and counts. A Holder before a
// feed keeps the rows of a gated sampler until it is known whether they are needed.
//
// Locks are taken in this order; those of one group are never held together.
//
//	Holder.mu            while it pushes the rows it held
//
//	Queue.mu             innermost, like those below
//	Outlet.mu
//	Tally.mu
//
// It must not know queries, sessions, or what decides when a gate opens.
package flow
