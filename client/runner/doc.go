// Package runner executes statements of a session and shows their results:
// rows on the output, notices and the footer on the error stream.
//
//	             ┌ pump goroutine ┐          ┌─ Statement, the caller's ─┐
//	Session ────►│ Execute, Next… │── step ─►│ renderer, notices, footer │──► output
//	             └────────────────┘          └───────────────────────────┘
//	                                            ▲ signals, ticks, output closed
//
// Only the pump calls Execute, Next and Close; only Statement writes. They
// communicate by one unbuffered channel, without locks. Statement returns when the
// pump has ended and the query is detached.
//
// It must not know how statements are read (a command line, a prompt) nor how
// rows are formatted.
package runner
