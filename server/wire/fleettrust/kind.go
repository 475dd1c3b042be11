package fleettrust

import (
	"fmt"
	"slices"
	"time"
)

// Kind is the kind of a signed message. A signature is valid for its kind only.
type Kind uint8

// Kinds. To add one, add a constant and a row of the table kinds.
const (
	KindQuery     Kind = iota + 1 // a query, sealed to hosts
	KindLease                     // a query may run on
	KindTombstone                 // a query is revoked
	KindSession                   // the opening of a Session
	KindHost                      // a host's description
	KindHeartbeat                 // a host is alive
)

const day = 24 * time.Hour

// kindRules are what a receiver requires of a kind of message.
type kindRules struct {
	name string
	from []Role        // who may sign it
	life time.Duration // the longest from not-before to expiry
	size int           // the longest body
}

var kinds = map[Kind]kindRules{
	KindQuery:     {"query", []Role{Author}, MaxStandingLife, maxBody},
	KindLease:     {"lease", []Role{Author, Reducer}, MaxStandingLease, 4 << 10},
	KindTombstone: {"tombstone", []Role{Author}, MaxStandingLife, 4 << 10},
	KindSession:   {"session", []Role{Host, Author, Reducer}, day, 8 << 10},
	KindHost:      {"description of a host", []Role{Host, Reducer}, MaxStandingLife, 64 << 10},
	KindHeartbeat: {"heartbeat", []Role{Host, Reducer}, time.Minute, 64 << 10},
}

func (k Kind) String() string {
	if r, ok := kinds[k]; ok {
		return r.name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// may reports whether a member with role r may sign messages of kind k.
func (k Kind) may(r Role) bool { return slices.Contains(kinds[k].from, r) }

// Limits of validity.
const (
	// Tolerance is how far the clocks of members may differ.
	Tolerance = 30 * time.Second
	// MaxLife is the longest that a query lives that ends with its author.
	MaxLife = day
	// MaxStandingLife is that of a standing query.
	MaxStandingLife = 366 * day
	// MaxLease is the longest lease of a query that ends with its author.
	MaxLease = 30 * time.Second
	// MaxStandingLease is that of a standing query.
	MaxStandingLease = 10 * time.Minute
)

// Limits of size. A NATS server accepts messages of 1 MiB unless it is configured
// otherwise.
const (
	// MaxMessage is the longest message that a receiver looks at.
	MaxMessage = maxBody + overhead
	maxBody    = 768 << 10
	overhead   = 16 << 10 // certificate, header, signature
)
