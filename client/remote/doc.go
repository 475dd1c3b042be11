// Package remote is an engine behind a network, as wire.Engine describes it:
// whoever works with one in the same process works with it.
//
//	Session ── ActionSession ──► hello, notes ... (as long as the session)
//	Result  ── DoGet ──────────► begin, rows, flush, notice, beat ..., end
//
// A session has a connection of its own. A goroutine for each result reads its
// records and makes batches of them; it waits for its reader, and so, in the end,
// does the server's side of the result, which drops what nobody reads.
//
// A part of a query may be left to this side (fragment): the server sends it with the
// beginning, and then rows for one of its ports, which change while the query runs.
//
// It must not know how statements are planned, nor how results are shown.
package remote
