// Package runner executes statements of a session and shows what comes of
// them: rows on the output, notices and the footer beside it.
//
//	             ┌ pump goroutine ┐          ┌─ Statement, the caller's ─┐
//	Session ────►│ Execute, Next… │── step ─►│ renderer, notices, footer │──► output
//	             └────────────────┘          └───────────────────────────┘
//	                                            ▲ signals, ticks, output closed
//
// The pump alone calls Execute, Next and Close; Statement alone writes. There
// is no lock: they meet in one unbuffered channel, and Statement returns when
// the pump has ended and nothing of the query is attached any more.
//
// It must not know how statements are read (a command line, a prompt) nor how
// rows are formatted.
package runner
