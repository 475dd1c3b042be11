// Package top is the live full-screen view of the functions of a program.
//
//	stack samples ───► profile ─┐
//	                      │     ├─► Meter ─► Snapshot ─► screen (bubbletea)
//	                      ▼     │
//	counting query ──► figures ─┘
//
// What is measured and how stands in meter.go and figures.go alone: the screen knows only
// a [Snapshot]. Functions are known from stack samples first. Their calls are counted by one
// statement WITHIN OVERHEAD, which begins again when samples find others. The engine decides
// what it counts all the time and what in slices of time, so that everything together takes
// at most a share of the program's CPU time.
//
// It uses an engine only by a session. It must not know flags, nor how an engine is reached.
package top
