// Package fleettrust protects the messages of a fleet on a bus that is not trusted:
// certificates of members, signatures, leases, revocation, and sealing.
//
//	endoscoped enroll ─► Identity (a host, an author, a reducer)
//
//	author ─ SealQuery ─► bus ─ VerifyQuery, Open ─► Register ─ Live ─► the host runs it
//	author ─ Sign(KindLease, KindTombstone) ─► bus ─ Verify ─► Register
//	host ─ NewSession, Seal ─► bus ─ Inbox.Open ─► reader of the result
//	CA ─ MakeList, MakeInventory ─► bus ─ SetList, Inventory ─► everybody
//
// # What a message proves
//
// Each member has a certificate of the installation's CA, which states its name, its role
// and its labels, an Ed25519 key that verifies its signatures, an X25519 key to which
// messages for it are sealed, and the key of its user at the NATS server. A key has one
// use. In particular, a NATS server chooses what the key of its user signs.
//
// A signature covers a domain (project, version, kind of message), the installation, the
// signer's certificate, and the exact bytes of the payload: the query's id, when it was
// signed, when it expires, the number of the newest list of revoked certificates that the
// signer knows, and the body. The id of a query is the hash of its contents: text,
// settings, definitions, hosts, readers of the result. A receiver checks, in this order:
// the size, the certificate, the role, the signature, the period (clocks may differ by
// Tolerance). Only then it parses the body.
//
// # Replays
//
// Queries are idempotent by id. A Register lets a query run only while its lease is fresh,
// so that an old query does not begin again at an agent that has restarted: leases last 30
// s, those of standing queries 10 min, and each counts once. A tombstone ends a query at
// once, and is kept until the query expires. An Inbox accepts each sealed message once.
// Newest refuses repeated heartbeats. Lists of revoked certificates, and inventories, are
// numbered, and older ones are refused.
//
// # Sealing
//
// The contents of queries and results have a key of their own, AES-256-GCM. That key is
// sealed to each receiver by HPKE (RFC 9180). A result's key belongs to a Session, whose
// opening the host signs once; further messages cost one AES-GCM each. Members that share
// a session's key are trusted not to forge each other's hosts: readers of one result are
// its author and certified reducers.
//
// # What the bus can do
//
// Whoever controls the bus can delay, drop and reorder messages, and so deny service. That
// shows in the coverage of results, since the inventory of hosts is signed. It sees who
// asks (names in certificates), when, to which hosts, and how long messages are. It
// cannot read text or results, nor make a host run, continue or keep anything. A member
// can do what its role permits, no more. The users file and the limits of each host apply
// to authors as to any user.
//
// Sealing is not forward secret: who obtains a member's file of credentials can read what
// was sealed to it before. Short-lived certificates of authors limit that.
//
// # Use
//
// Package server/wire/bus defines the messages of a fleet, and an interface that all of
// them pass through. Package server/wire/guard implements it with this package. To add a
// kind of signed message, add a row to the table kinds (kind.go).
//
// Locks: Register.mu may be held when Trust.mu is taken; Inbox.mu and received.mu are not
// held together with another.
//
// It must not know NATS, nor statements, plans or results.
package fleettrust
