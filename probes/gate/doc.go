// Package gate implements the flags by which one acquisition disables another
// (EndoScope, section 5.3): words in memory that eBPF programs, samplers and
// the engine read and change without locks.
//
// A gate is open until a time. Openers only ever increase that time, so they
// need no lock; and closing needs no action, since the time passes. In
// addition, the engine may force a gate open; the plan of a query is determined
// by which of its gates are forced, and switching the plan changes a word.
// Openers continue meanwhile, so that when the force ends the gate is open
// exactly as long as it would be without.
//
// Why nothing is lost between an opener's event at time t and a later row of
// the gated side: the opener finds the gate open for long enough, or opens it,
// and then reads the clock, which returns t; the gated side reads the clock,
// which returns u, and then reads the gate. If u > t, that read comes after the
// opening. (The opener's store and its reading of the clock are ordered by a
// locked instruction, the gated side's two reads by the gate's address, which
// depends on the time.)
//
// The package must not know plans, joins, or what is acquired.
package gate
