// Package standing keeps the results of standing queries (CREATE QUERY) on disk, and gives
// them to queries of this engine as streams.
//
//	root of the query ─► Results.Append ─► log, segment files ─► source ─► queries, triggers, exports
//
// A directory of a query has a description and segments. A segment is a file of records, each
// a window's rows with their checksum; a record that was not written completely is removed
// when the query is opened again. The oldest segments are removed beyond a size.
//
// Goroutines: each source has one that reads the log and waits for more; Stop waits for it.
// Locks are taken in this order, and none is held while a sink is called:
//
//	Store.mu  the queries by id
//	Query.mu  its log and its state
//
// It must not know the bus, nor how results are made.
package standing
