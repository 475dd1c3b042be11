// Package gate has the flags by which one acquisition keeps another shut
// (EndoScope, section 5.3): a word in memory that eBPF programs, samplers and the
// engine look at and change without asking each other.
//
// A gate is open until a time. Whoever opens it puts that time off and
// never brings it nearer, so that openers need no lock; and closing needs
// nobody, for the time passes. Besides, the engine may force a gate open; which plan a query follows
// is which of its gates are forced, and changing it changes a word. Openers go on
// meanwhile, so that when the force ends the gate is open for just as long as
// it would be without.
//
// Why nothing is lost between an opener's event at time t and a row of the gated
// side behind it: the opener finds the gate open for long enough, or opens it,
// and then reads the clock, which gives t; the gated side reads the clock, which
// gives u, and then looks at the gate. If u > t, the look came after the opening.
// (The opener's store and its reading of the clock are ordered by a locked
// instruction, the gated side's reading and its look by the look's address, which
// depends on the time that was read.)
//
// The package must not know plans, joins, or what is acquired.
package gate
