package guard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
)

// Options of a Guard.
type Options struct {
	// List is a file that keeps the newest list of revoked certificates; "": none.
	List string
	Now  func() time.Time // nil: time.Now
}

// Guard is the bus.Trust of a member of a fleet. It is safe for concurrent use.
type Guard struct {
	me       *fleettrust.Identity
	trust    *fleettrust.Trust
	now      func() time.Time
	register *fleettrust.Register // of a host: queries it may run
	beats    fleettrust.Newest

	mu sync.Mutex
	// queries are those that were sent or received, by their ids on the bus.
	queries map[string]*query
	// members are those to whom messages can be sealed, by role and name.
	members map[string]known
	// inventory is the newest one of the fleet's hosts; nil: none is known.
	inventory *fleettrust.Inventory
	// inbox is for messages that are about no query.
	inbox *fleettrust.Inbox
	// sessions to a member, about no query, by role and name.
	sessions map[string]*fleettrust.Session
}

// query is a query that was sent or received.
type query struct {
	id     fleettrust.ID
	expiry time.Time
	held   bool // the register holds it: this member is not its author
	// Of its readers: what hosts send. Of a host: what it sends to its readers.
	inbox   *fleettrust.Inbox
	session *fleettrust.Session
	readers []*fleettrust.Member // of the session
	// reducers are the names of those that merge what the hosts of a query send, where this
	// member is its author.
	reducers []string
}

// known is a member, and when it has said so.
type known struct {
	*fleettrust.Member
	at time.Time
}

// How long messages are valid. A receiver adds fleettrust.Tolerance.
const (
	queryLife   = fleettrust.MaxLife
	leaseLife   = bus.LeaseLength
	beatLife    = 5 * time.Second
	hostLife    = fleettrust.MaxStandingLife
	sessionLife = time.Hour
	recordLife  = sessionLife + bus.RecordsKept
)

// New returns the Guard of a member.
func New(me *fleettrust.Identity, o Options) (*Guard, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	t, err := fleettrust.NewTrust(me.CA, fleettrust.Options{List: o.List, Now: o.Now})
	if err != nil {
		return nil, err
	}
	g := &Guard{me: me, trust: t, now: o.Now, register: fleettrust.NewRegister(t),
		queries: map[string]*query{}, members: map[string]known{}, sessions: map[string]*fleettrust.Session{}}
	from := []fleettrust.Role{fleettrust.Host, fleettrust.Reducer}
	switch me.Role {
	case fleettrust.Host:
		from = []fleettrust.Role{fleettrust.Author, fleettrust.Reducer}
	case fleettrust.Reducer:
		from = []fleettrust.Role{fleettrust.Author}
	}
	g.inbox = fleettrust.NewInbox(me, t, fleettrust.ID{}, from...)
	return g, nil
}

// Member returns the member whose messages it seals.
func (g *Guard) Member() *fleettrust.Member { return g.me.Member }

var _ bus.Trust = (*Guard)(nil)

// header returns the header of a message that is valid for life, or for as long as the
// certificate of its signer.
func (g *Guard) header(id fleettrust.ID, life time.Duration) fleettrust.Header {
	h := fleettrust.Header{ID: id, NotBefore: g.now(), List: g.trust.ListNumber()}
	h.Expiry = h.NotBefore.Add(life)
	if h.Expiry.After(g.me.NotAfter) {
		h.Expiry = g.me.NotAfter
	}
	return h
}

// purpose is what a sealed message is bound to: it is not accepted as one of another kind.
func purpose(k bus.Kind) string { return fmt.Sprintf("bus %d", k) }

func memberKey(r fleettrust.Role, name string) string { return r.String() + " " + name }

// learn remembers a member. An older certificate does not replace a newer one.
func (g *Guard) learn(m *fleettrust.Member, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := memberKey(m.Role, m.Name)
	if old, ok := g.members[key]; !ok || !at.Before(old.at) {
		g.members[key] = known{m, at}
		if ok && old.Fingerprint != m.Fingerprint {
			delete(g.sessions, key)
		}
	}
}

// member returns a known member whose certificate is valid.
func (g *Guard) member(r fleettrust.Role, name string) (*fleettrust.Member, error) {
	g.mu.Lock()
	m, ok := g.members[memberKey(r, name)]
	g.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%s %s is not known: it has no valid certificate on the bus", r, name)
	}
	return m.Member, g.trust.Valid(m.Member)
}

// query returns a query by its id on the bus.
func (g *Guard) query(id string) (*query, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.queries[id]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("the query %s is not known", id)
}

// A query on the bus:
//
//	length(4) message, keys of its hosts

// sealQuery seals a query to hosts.
func (g *Guard) sealQuery(a bus.About, body []byte) ([]byte, error) {
	var hosts []*fleettrust.Member
	for _, name := range a.Hosts {
		m, err := g.executes(name)
		if err != nil {
			continue // it cannot read the query, and is not waited for
		}
		hosts = append(hosts, m)
	}
	q, life := fleettrust.Query{Body: body}, queryLife
	var readers []*fleettrust.Member
	for _, name := range a.Keepers {
		m, err := g.member(fleettrust.Reducer, name)
		if err != nil {
			return nil, err
		}
		q.Standing, readers, life = true, append(readers, m), fleettrust.MaxStandingLife
	}
	if len(a.Reducers) > 0 {
		readers = append(readers, g.me.Member)
	}
	for _, name := range a.Reducers {
		if m, err := g.member(fleettrust.Reducer, name); err == nil { // else others merge
			readers = append(readers, m)
		}
	}
	h := g.header(fleettrust.ID{}, life)
	s, err := g.me.SealQuery(q, h, hosts, readers)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.forget()
	g.queries[a.Query] = &query{id: s.ID, expiry: h.Expiry, reducers: a.Reducers, inbox: fleettrust.NewInbox(g.me, g.trust, s.ID, fleettrust.Host, fleettrust.Reducer)}
	g.mu.Unlock()
	return joined(s.Message, s.Keys), nil
}

// joined returns a query as it is on the bus.
func joined(message []byte, keys [][]byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	return slices.Concat(append([][]byte{out, message}, keys...)...)
}

// executes returns the member of this name on the bus: a host, or a reducer, which executes
// queries about the results that it keeps.
func (g *Guard) executes(name string) (*fleettrust.Member, error) {
	if reducer, ok := bus.Reducer(name); ok {
		return g.member(fleettrust.Reducer, reducer)
	}
	return g.member(fleettrust.Host, name)
}

// Offer implements bus.Trust.
func (g *Guard) Offer(id string, sealed []byte, hosts []string) ([]byte, error) {
	q, err := g.query(id)
	if err != nil {
		return nil, err
	}
	o := g.register.Query(q.id)
	if o == nil || len(sealed) < 4 || uint64(binary.BigEndian.Uint32(sealed)) > uint64(len(sealed)-4) {
		return nil, fmt.Errorf("the query %s cannot be offered to other hosts", id)
	}
	var to []*fleettrust.Member
	for _, name := range hosts {
		m, err := g.executes(name)
		if err != nil {
			return nil, err
		}
		to = append(to, m)
	}
	keys, err := o.KeysFor(to)
	if err != nil {
		return nil, err
	}
	return joined(sealed[4:4+binary.BigEndian.Uint32(sealed)], keys), nil
}

// forget drops queries that have expired, and those that the register of a host has dropped.
// The caller holds g.mu.
func (g *Guard) forget() {
	for id, q := range g.queries {
		dropped := q.held && g.register.Query(q.id) == nil
		if dropped || g.now().After(q.expiry.Add(2*fleettrust.Tolerance)) {
			delete(g.queries, id)
		}
	}
}

// openQuery opens a query at a host or a reader of its results, and notes it. Its author may
// open it to revoke it.
func (g *Guard) openQuery(a bus.About, received []byte) ([]byte, string, error) {
	if len(received) < 4 || uint64(binary.BigEndian.Uint32(received)) > uint64(len(received)-4) {
		return nil, "", fmt.Errorf("the query %s is truncated", a.Query)
	}
	n := binary.BigEndian.Uint32(received)
	s, err := g.trust.VerifyQuery(received[4 : 4+n])
	if err != nil {
		return nil, "", err
	}
	q, err := g.trust.Open(g.me, s, received[4+n:])
	if err != nil {
		return nil, "", err
	}
	if g.me.Role == fleettrust.Reducer && q.Standing && !q.ReadBy(g.me.Member) {
		return nil, "", fmt.Errorf("the standing query of %s is kept by others", q.Author.Name)
	}
	added, err := g.register.Add(q)
	if err != nil {
		return nil, "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	known := g.queries[a.Query]
	switch {
	case known != nil && known.id != q.ID:
		return nil, "", fmt.Errorf("there is another query %s", a.Query)
	case known == nil && !added:
		return nil, "", fmt.Errorf("the query %s was received before, with another id", a.Query)
	case known == nil:
		known = &query{id: q.ID, expiry: q.Expiry, held: true}
		if g.me.Role == fleettrust.Reducer && q.ReadBy(g.me.Member) {
			known.inbox = fleettrust.NewInbox(g.me, g.trust, q.ID, fleettrust.Host, fleettrust.Reducer)
		}
		g.queries[a.Query] = known
	}
	return q.Body, q.Author.Name, nil
}

// Live implements bus.Trust.
func (g *Guard) Live(id string) error {
	q, err := g.query(id)
	if err == nil {
		_, err = g.register.Live(q.id)
	}
	return err
}

// lease returns a signed lease. One that says that the query is over is a tombstone, after
// which nothing of the query is needed here.
func (g *Guard) lease(a bus.About, message []byte) ([]byte, error) {
	q, err := g.query(a.Query)
	if err != nil {
		return nil, err
	}
	var l bus.Lease
	if err := bus.Decode(message, &l); err != nil {
		return nil, err
	}
	if !l.Over {
		return g.me.Sign(fleettrust.KindLease, g.header(q.id, max(leaseLife, min(time.Duration(l.Length), fleettrust.MaxStandingLease))), message)
	}
	g.mu.Lock()
	delete(g.queries, a.Query)
	g.mu.Unlock()
	h := g.header(q.id, 0)
	h.Expiry = q.expiry
	return g.me.Sign(fleettrust.KindTombstone, h, message)
}

// openLease verifies a lease or a tombstone, and notes it. That of a query that is not
// known has no effect.
func (g *Guard) openLease(a bus.About, received []byte) ([]byte, string, error) {
	kind := fleettrust.KindLease
	if fleettrust.KindOf(received) == fleettrust.KindTombstone {
		kind = fleettrust.KindTombstone
	}
	m, err := g.trust.Verify(kind, received)
	if err != nil {
		return nil, "", err
	}
	var l bus.Lease
	if err := bus.Decode(m.Body, &l); err != nil {
		return nil, "", err
	}
	if l.Query != a.Query || l.Over != (kind == fleettrust.KindTombstone) {
		return nil, "", fmt.Errorf("the lease is not one of the query %s", a.Query)
	}
	q, err := g.query(a.Query)
	switch {
	case kind == fleettrust.KindTombstone && err == nil && m.ID != q.id:
		err = fmt.Errorf("the tombstone is that of another query %s", a.Query)
	case kind == fleettrust.KindTombstone:
		err = g.register.Tombstone(m)
	case err != nil:
		return m.Body, m.From.Name, nil // it says up to where the bucket must be read
	case m.ID != q.id:
		err = fmt.Errorf("the lease is that of another query %s", a.Query)
	default:
		err = g.register.Lease(m)
	}
	return m.Body, m.From.Name, err
}

// Revoked takes the list of revoked certificates in PEM, and reports whether it is newer
// than the one before.
func (g *Guard) Revoked(list []byte) (newer bool, err error) { return g.trust.SetList(list) }
