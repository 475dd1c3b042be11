package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
)

// Seal implements bus.Trust.
func (g *Guard) Seal(a bus.About, message []byte) ([]byte, error) {
	switch a.Kind {
	case bus.KindQuery:
		return g.sealQuery(a, message)
	case bus.KindLease:
		return g.lease(a, message)
	case bus.KindHost:
		return g.me.Sign(fleettrust.KindHost, g.header(fleettrust.ID{}, hostLife), message)
	case bus.KindHeartbeat:
		return g.me.Sign(fleettrust.KindHeartbeat, g.header(fleettrust.ID{}, beatLife), message)
	case bus.KindControl:
		return g.sealTo(a.Host, a, message)
	case bus.KindAnswer:
		return g.sealToMember(fleettrust.Author, a.To, a, message)
	case bus.KindResult, bus.KindRecord:
		return g.sealResult(a, message)
	}
	return nil, fmt.Errorf("a message of kind %d is not known", a.Kind)
}

// Open implements bus.Trust.
func (g *Guard) Open(a bus.About, received []byte) (message []byte, from string, err error) {
	switch a.Kind {
	case bus.KindQuery:
		return g.openQuery(a, received)
	case bus.KindLease:
		return g.openLease(a, received)
	case bus.KindHost:
		return g.openHost(a, received)
	case bus.KindHeartbeat:
		return g.openHeartbeat(a, received)
	case bus.KindControl:
		return g.openControl(a, received)
	case bus.KindAnswer:
		return g.openAnswer(a, received)
	case bus.KindResult:
		return g.openResult(a, received)
	case bus.KindRecord:
		return g.openRecord(a, received)
	}
	return nil, "", fmt.Errorf("a message of kind %d is not known", a.Kind)
}

// usable reports whether a session can be used on.
func (g *Guard) usable(s *fleettrust.Session) bool { return s != nil && g.now().Before(s.Expiry()) }

// sealTo seals a message that is about no query to the member of this name on the bus.
func (g *Guard) sealTo(name string, a bus.About, message []byte) ([]byte, error) {
	if reducer, ok := bus.Reducer(name); ok {
		return g.sealToMember(fleettrust.Reducer, reducer, a, message)
	}
	return g.sealToMember(fleettrust.Host, name, a, message)
}

func (g *Guard) sealToMember(r fleettrust.Role, name string, a bus.About, message []byte) ([]byte, error) {
	m, err := g.member(r, name)
	if err != nil {
		return nil, err
	}
	key := memberKey(r, name)
	g.mu.Lock()
	s := g.sessions[key]
	g.mu.Unlock()
	if !g.usable(s) {
		if s, err = g.me.NewSession(g.header(fleettrust.ID{}, sessionLife), []*fleettrust.Member{m}); err != nil {
			return nil, err
		}
		g.mu.Lock()
		g.sessions[key] = s
		g.mu.Unlock()
	}
	return s.Seal(nil, purpose(a.Kind), message), nil
}

// sealResult seals a part of a result to the readers of its query.
func (g *Guard) sealResult(a bus.About, message []byte) ([]byte, error) {
	q, err := g.query(a.Query)
	if err != nil {
		return nil, err
	}
	o := g.register.Query(q.id)
	if o == nil {
		return nil, fmt.Errorf("the query %s has expired", a.Query)
	}
	readers, err := g.trust.ReadersOf(o)
	if err != nil {
		return nil, err
	}
	s, err := g.sessionOf(q, readers, a.Kind)
	if err != nil {
		return nil, err
	}
	return s.Seal(nil, purpose(a.Kind), message), nil
}

// sessionOf returns the session by which the results of a query are sealed. Records are read
// as long as they are stored.
func (g *Guard) sessionOf(q *query, readers []*fleettrust.Member, k bus.Kind) (_ *fleettrust.Session, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	life, rest := sessionLife, time.Duration(0)
	if k == bus.KindRecord {
		life, rest = recordLife, bus.RecordsKept
	}
	if s := q.session; s == nil || !g.now().Add(rest).Before(s.Expiry()) || !slices.Equal(q.readers, readers) {
		q.readers = readers
		q.session, err = g.me.NewSession(g.header(q.id, life), readers)
	}
	return q.session, err
}

// openResult opens a part of a result. It is one of the host that it names, or one of a shard,
// by a reducer that the query names.
func (g *Guard) openResult(a bus.About, received []byte) ([]byte, string, error) {
	q, err := g.query(a.Query)
	if err != nil {
		return nil, "", err
	}
	if q.inbox == nil {
		return nil, "", errors.New("the result is not for here")
	}
	from, message, err := q.inbox.Open(nil, purpose(a.Kind), received)
	if err != nil {
		return nil, "", err
	}
	h, _, err := bus.DecodeItem(message)
	if err != nil {
		return nil, "", err
	}
	if h.Shard != nil && (from.Role != fleettrust.Reducer || !slices.Contains(q.reducers, from.Name)) {
		return nil, "", fmt.Errorf("%s %s is no reducer of the query", from.Role, from.Name)
	}
	return message, from.Name, speaks(from, h.Host, a.Host)
}

// openRecord opens a part of a record, which a keeper of the query has stored.
func (g *Guard) openRecord(a bus.About, received []byte) ([]byte, string, error) {
	q, err := g.query(a.Query)
	if err != nil {
		return nil, "", err
	}
	o := g.register.Query(q.id)
	if q.inbox == nil || o == nil {
		return nil, "", errors.New("the record is not for here")
	}
	from, message, err := q.inbox.Open(nil, purpose(a.Kind), received)
	if err != nil {
		return nil, "", err
	}
	if from.Role != fleettrust.Reducer || !o.ReadBy(from) {
		return nil, "", fmt.Errorf("the record is of %s %s, which does not keep the query", from.Role, from.Name)
	}
	return message, from.Name, nil
}

func (g *Guard) openAnswer(a bus.About, received []byte) ([]byte, string, error) {
	from, message, err := g.inbox.Open(nil, purpose(a.Kind), received)
	if err != nil {
		return nil, "", err
	}
	return message, from.Name, speaks(from, a.Host)
}

// nameOf returns the name of a member on the bus; "": it executes nothing.
func nameOf(m *fleettrust.Member) string {
	switch m.Role {
	case fleettrust.Host:
		return m.Name
	case fleettrust.Reducer:
		return bus.ReducerName(m.Name)
	}
	return ""
}

// speaks refuses a message of a member that names another host. "" is not a name.
func speaks(from *fleettrust.Member, names ...string) error {
	own := nameOf(from)
	for _, name := range names {
		if own == "" || name != "" && name != own {
			return fmt.Errorf("the message is that of the %s %s, not of the host %s", from.Role, from.Name, name)
		}
	}
	return nil
}

// openControl opens a message to this host. That about a query must come from a reader of
// it.
func (g *Guard) openControl(a bus.About, received []byte) ([]byte, string, error) {
	if a.Host != nameOf(g.me.Member) {
		return nil, "", fmt.Errorf("the message is for %s", a.Host)
	}
	from, message, err := g.inbox.Open(nil, purpose(a.Kind), received)
	if err != nil {
		return nil, "", err
	}
	var c bus.Control
	if err := bus.Decode(message, &c); err != nil {
		return nil, "", err
	}
	if c.Query != "" {
		q, err := g.query(c.Query)
		if err != nil {
			return nil, "", err
		}
		o := g.register.Query(q.id)
		if o == nil || !o.ReadBy(from) {
			return nil, "", fmt.Errorf("%s %s does not read the result of %s", from.Role, from.Name, c.Query)
		}
	}
	g.learn(from, g.now()) // the answer is sealed to it
	return message, from.Name, nil
}

// openHost verifies a host's description. Its name and its labels are those of its
// certificate.
func (g *Guard) openHost(a bus.About, received []byte) ([]byte, string, error) {
	m, err := g.trust.Verify(fleettrust.KindHost, received)
	if err != nil {
		return nil, "", err
	}
	if m.From.Role != fleettrust.Host {
		return nil, "", fmt.Errorf("%s %s describes a host", m.From.Role, m.From.Name)
	}
	var h bus.Host
	if err := errors.Join(bus.Decode(m.Body, &h), speaks(m.From, a.Host)); err != nil {
		return nil, "", err
	}
	h.Name, h.Labels = m.From.Name, m.From.Labels
	g.learn(m.From, m.NotBefore)
	return bus.Encode(h), h.Name, nil
}

func (g *Guard) openHeartbeat(a bus.About, received []byte) ([]byte, string, error) {
	m, err := g.trust.Verify(fleettrust.KindHeartbeat, received)
	if err != nil {
		return nil, "", err
	}
	var b bus.Heartbeat
	if err := errors.Join(bus.Decode(m.Body, &b), speaks(m.From, b.Host, a.Host)); err != nil {
		return nil, "", err
	}
	if err := g.beats.Accept(m); err != nil {
		return nil, "", err
	}
	g.learn(m.From, m.NotBefore) // its description may have been replaced by who may not
	return m.Body, m.From.Name, nil
}
