// Package top is the live full-screen view of the functions of a program.
//
//	stack samples ─► profile ─┐
//	counting query ───────────┼─► Meter ─► Snapshot ─► screen (bubbletea)
//	short counting queries ───┘      ▲
//	                              budget: decides what is counted
//
// What is measured and how stands in meter.go and budget.go alone: the screen knows only
// a [Snapshot]. Functions are known from stack samples first. Those whose calls are cheap
// enough are counted all the time, others in short bursts, so that everything together
// costs at most [Limit] of a CPU.
//
// It uses an engine only by a session. It must not know flags, nor how an engine is reached.
package top
