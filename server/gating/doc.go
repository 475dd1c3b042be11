// Package gating decides which inputs of a query's window joins are acquired
// all the time, and which only behind a gate that another input opens. Once a
// second it compares the costs of the plans, and changes which gates are held
// open.
//
// Goroutines: Gating.run evaluates, and there is one for each link whose probes can be
// detached (Gating.runAttachment); Gating.End waits for both.
//
// Locks are taken in this order; those of one group are never held together.
//
//	inForce.Mu           the plan in force; waits for Attaching to describe it
//	detaching.Attaching  while a link's probes are attached or detached
//
//	link.mu              how late a link was opened
//
// It must not know sessions, nor more of a query than its feeds, its plan and
// whether it runs.
package gating
