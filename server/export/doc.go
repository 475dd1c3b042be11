// Package export implements CREATE EXPORT: a standing query whose rows leave as metrics or
// as spans. A Registry holds the exports of an engine by name and owner.
//
//	query ─► figures ─► Snapshot (replaced at each interval) ─┬► Gatherer: /metrics
//	                                                          └► sender: OTLP, remote write, profiles
//	query ─► calls ─► trees of spans ─► sender: OTLP
//
// Nothing waits for a receiver: the runner of the query replaces a snapshot, or puts spans
// in a bounded queue, which drops and counts. Series beyond the limit are left out and
// counted. What is lost is a metric itself (health.go).
//
// To add a kind of receiver, write a transport (transport.go) and its scheme in
// planner.ExportSchemes.
//
// Goroutines, by what waits for them:
//
//	Export.Run  Export.Over. It waits for its query and for its sender
//	sender.run  sender.done
//
// Locks are taken in this order, though none is held while another is taken:
//
//	Registry.mu  exports by name
//	sender.mu    what is to be sent
//
// It must not know sessions, nor how statements are planned or permitted.
package export
