// Package guard is the Trust of a fleet (package bus) whose bus is not trusted. Every
// message passes through a Guard, at both ends.
//
//	bus.Kind     on the bus                                   who may send it
//	query        signed, sealed to its hosts                  authors
//	lease        signed; the last one is a tombstone          the author of the query
//	control      sealed to the host                           the readers of the query
//	host         signed; labels are those of its certificate  the host
//	heartbeat    signed                                       the host
//	result       sealed to the readers of the query           the host; of a shard: a reducer
//	                                                          that the query names
//	answer       sealed to the author who asked               the host
//
// It also states what the user of each member may do at the NATS server (permissions.go),
// and carries the list of revoked certificates (lists.go).
//
// Locks: Guard.mu may be held when the locks of package fleettrust are taken.
//
// It must not know how statements are planned or executed.
package guard
