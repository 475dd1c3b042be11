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
// It must not know how statements are executed, nor how results are shown.
package remote
