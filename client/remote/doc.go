// Package remote implements wire.Engine for an engine that is reached over a
// network. Callers use it like one in the same process.
//
//	Session ── ActionSession ──► hello, notes ... (as long as the session)
//	Result  ── DoGet ──────────► begin, rows, flush, notice, beat ..., end
//
// Each session has its own connection. For each result a goroutine reads records and
// converts them to batches. It waits for the reader of the result, and by flow
// control so does the server, which drops rows that are not read.
//
// Part of a query may be executed by the client (fragment): the server sends it with
// the first frame, and then rows for one of its ports; the port may change while the
// query runs.
//
// It must not know how statements are planned, nor how results are shown.
package remote
