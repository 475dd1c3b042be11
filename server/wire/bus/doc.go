// Package bus defines what a fleet says over NATS: subjects, buckets and messages. The
// hosts' agents (server/fleet) and the root (client/fleet/root) use it.
//
//	bucket endoscope_queries      a query by its id; changes are republished to the agents
//	                              a standing query's tombstone by its id
//	bucket endoscope_hosts        a host by its name: labels, version, kernel
//	bucket endoscope_keepers      which reducer keeps a standing query, and which owns a shard
//	stream endoscope_heartbeats   the last heartbeat of each host
//	stream endoscope_records      the last results of each standing query
//
//	endoscope.query.ID            agents  a change of the bucket, or its loss: read again
//	endoscope.lease.ID            agents  the query may run on; its end
//	endoscope.heartbeat.HOST      all     each second
//	endoscope.host.HOST           agent   acknowledgements, and questions with a reply
//	endoscope.result.ID.HOST      root    items of a host's or a reducer's result, in parts
//	endoscope.part.ID.SHARD.HOST  reducer items of a host's result that reducers merge
//
// Only the buckets and the streams are stored. Everything else is core NATS, which
// may lose, repeat and reorder messages.
//
// A host's result is a sequence of numbered items. An item names the item that it needs
// (Header.Needs): a total replaces all totals before it and needs only the beginning, a
// window needs the window before. The receiver (Stream) delivers an item when what it
// needs was delivered, drops what is repeated or replaced, and asks for what is missing.
// The sender (Outbox) keeps items until they are replaced or acknowledged.
//
// All messages pass through a Trust, which signs, seals and verifies them.
//
// It must not know how statements are planned or executed, nor how results are merged.
package bus
