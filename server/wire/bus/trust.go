package bus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Kind is what a message is, for its Trust.
type Kind uint8

// Kinds of messages.
const (
	KindQuery     Kind = iota + 1 // from a root to its hosts
	KindLease                     // from a root to its hosts
	KindControl                   // from a root to one host
	KindHost                      // a host's description
	KindHeartbeat                 // a host's
	KindResult                    // from a host to the root of a query
	KindAnswer                    // from a host to the root that asked
	KindRecord                    // a result of a standing query, from who keeps it to all who may
)

// About is what a message is about.
type About struct {
	Kind  Kind
	Query string   // its id; "" if it is about none
	Host  string   // of messages to or from one host
	Hosts []string // those that receive a query
	// Keepers are the reducers that may keep a standing query: renew its lease and read its
	// result; nil: the query is not a standing one.
	Keepers []string
	// Reducers are those that merge the results of a query's hosts, and read these, too.
	Reducers []string
	To       string // of an answer: the author of the question
}

// Trust protects messages: every message passes through it, at both ends, as exact bytes.
// It is safe for concurrent use.
type Trust interface {
	// Seal signs a message and, where it is for certain receivers only, encrypts it.
	Seal(a About, message []byte) ([]byte, error)
	// Open verifies a received message and returns it, and who signed it. An error refuses
	// it: nothing of it may be used.
	Open(a About, received []byte) (message []byte, from string, err error)
	// Offer returns a query, which was sealed or opened before, for hosts to which its author
	// did not seal it. Only its author and its readers can.
	Offer(query string, sealed []byte, hosts []string) ([]byte, error)
	// Live returns why a host may not run a query that it has opened; nil if it may.
	Live(query string) error
	// Learn reads once what Follow follows.
	Learn(ctx context.Context, nc *nats.Conn) error
	// Hosts returns the hosts that the fleet is known to have, described or not, with their
	// labels; nil: only the described ones are known.
	Hosts() []Host
	// Follow learns from the bus whom to trust, until ctx is done. report is called with
	// what changes, and with errors.
	Follow(ctx context.Context, nc *nats.Conn, report func(change string, err error))
}

// Open trusts everybody who may use the bus: messages are not protected. Queries are by
// Anybody.
type Open struct{}

// Anybody is the author of messages that are not signed, as a user of the hosts.
const Anybody = "fleet"

// Seal implements Trust.
func (Open) Seal(_ About, message []byte) ([]byte, error) { return message, nil }

// Open implements Trust.
func (Open) Open(_ About, received []byte) ([]byte, string, error) { return received, Anybody, nil }

// Offer implements Trust.
func (Open) Offer(_ string, sealed []byte, _ []string) ([]byte, error) { return sealed, nil }

// Live implements Trust.
func (Open) Live(string) error { return nil }

// Learn implements Trust.
func (Open) Learn(context.Context, *nats.Conn) error { return nil }

// Hosts implements Trust.
func (Open) Hosts() []Host { return nil }

// Follow implements Trust.
func (Open) Follow(context.Context, *nats.Conn, func(string, error)) {}
