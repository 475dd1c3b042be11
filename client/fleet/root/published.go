package root

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"endoscope/client/fleet"
	"endoscope/planner/types"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/columnar"
)

// published is a statement in the bucket of queries. It implements fleet.Published.
type published struct {
	e     *Engine
	query bus.Query
	kv    jetstream.KeyValue
	keeps *keeping // of a standing query, at the reducer that keeps it
	part  *partial // of one shard, at a reducer; nil: of all hosts
	head  uint64   // of the bucket
	quit  chan struct{}
	led   chan struct{} // closed when lead has ended
	once  sync.Once

	unsubscribe func()

	mu      sync.Mutex
	hosts   map[string]*answers
	settled bool // Answer is no longer waited for
	joined  chan fleet.Joined
	queue   []fleet.Joined // to be joined
	turn    int            // of acknowledging
	over    bool           // joined is closed, or will be
	ending  bool

	local *localReductions // of shards that no reducer merges; only lead uses it
}

// answers are what one host has sent, by the start of its agent.
type answers struct {
	name             string
	since            time.Time   // when it was first known, of a standing query
	offered          time.Time   // when the query was last sent to it alone
	last             *hostResult // nil: nothing
	begun            chan struct{}
	claimed          bool   // by Answer
	shard            *shard // what reducers send; nil: a host does
	ahead, uncertain time.Duration
	measured         time.Time
	turn             int  // when it is acknowledged, if there are many
	mute             bool // it was silent when the query was asked to end
}

// Of more than mostAcknowledged hosts each is told in one of so many turns what was received.
const (
	mostAcknowledged = 1000
	turns            = 10
)

// joining is how long a result waits at least for hosts that send heartbeats and have not
// answered: their answers may have been lost. leaving is how long it waits for hosts that are
// silent, when all others have ended.
const (
	joining = 10 * time.Second
	leaving = 10 * time.Second
)

// unackedRows is the size of rows that all hosts together may send ahead of the reader.
const unackedRows = 256 << 20

// queryLife is how long a query stays in the bucket, if its root does not remove it.
const queryLife = 24 * time.Hour

// publish publishes a statement for hosts.
func (s *session) publish(ctx context.Context, text string, args []types.Value, share bool, hosts []*host) (*published, error) {
	if len(hosts) == 0 && len(s.e.hosts.list()) == 0 {
		return nil, errNoHosts
	}
	kv, err := s.e.queries(ctx)
	if err != nil {
		return nil, err
	}
	q := s.query(text, args, hosts)
	if q.Share = share; share {
		q.Reduced = s.reduced(ctx, text, hosts)
	}
	p, err := s.e.receiveOf(q, hosts, nil)
	if err != nil {
		return nil, err
	}
	p.kv = kv
	about := bus.About{Kind: bus.KindQuery, Query: p.query.ID, Hosts: p.query.Hosts}
	if q.Reduced != nil {
		about.Reducers = q.Reduced.Reducers
	}
	value, err := p.e.trust.Seal(about, bus.Encode(p.query))
	if err == nil {
		p.head, err = kv.Create(ctx, bus.QueryKey(p.query.ID), value, jetstream.KeyTTL(queryLife))
	}
	if err != nil {
		p.unsubscribe()
		return nil, fmt.Errorf("the query cannot be published: %w", err)
	}
	go p.lead()
	return p, nil
}

// queries returns the bucket of queries.
func (e *Engine) queries(ctx context.Context) (jetstream.KeyValue, error) {
	js, err := jetstream.New(e.nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, bus.QueryBucket)
	if err != nil {
		return nil, fmt.Errorf("the bus: %w", err)
	}
	return kv, nil
}

// query returns a statement of the session for hosts.
func (s *session) query(text string, args []types.Value, hosts []*host) bus.Query {
	var id [16]byte
	_, _ = rand.Read(id[:])
	q := bus.Query{Version: bus.Version, ID: hex.EncodeToString(id[:]), Text: text, Args: columnar.EncodeValues(args),
		Prelude: s.prelude.statements(), Process: s.target.Process, Exe: s.target.Exe, Issued: time.Now().UnixNano(),
		Unacked: max(unackedRows/max(len(hosts), 1), 256<<10)}
	for _, h := range hosts {
		q.Hosts = append(q.Hosts, h.Name)
	}
	return q
}

// receiveOf receives what hosts send of a query.
func (e *Engine) receiveOf(q bus.Query, hosts []*host, keeps *keeping) (_ *published, err error) {
	p := &published{e: e, query: q, keeps: keeps, hosts: map[string]*answers{}, quit: make(chan struct{}), led: make(chan struct{}), joined: make(chan fleet.Joined)}
	if q.Reduced != nil {
		p.divide(q.Reduced.Shards)
	} else {
		for _, h := range hosts {
			p.hosts[h.Name] = newAnswers(h.Name)
		}
	}
	return p, p.subscribe(bus.ResultsOf(q.ID))
}

func (p *published) subscribe(subject string) error {
	sub, err := p.e.subscribe(subject, p.receive)
	p.unsubscribe = func() { _ = sub.Unsubscribe() }
	return err
}

// subscribe receives what hosts send, which may be much at a time.
func (e *Engine) subscribe(subject string, receive nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := e.nc.Subscribe(subject, receive)
	if err == nil {
		err = sub.SetPendingLimits(-1, 512<<20)
	}
	return sub, err
}

func newAnswers(host string) *answers {
	return &answers{name: host, since: time.Now(), begun: make(chan struct{}), turn: mathrand.IntN(turns)}
}

// Hosts implements fleet.Published.
func (p *published) Hosts() []string {
	switch {
	case p.part != nil:
		return p.part.hosts
	case p.query.Reduced != nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Sorted(maps.Keys(p.hosts))
	}
	return p.query.Hosts
}

// receive handles a message of a host or a reducer.
func (p *published) receive(m *nats.Msg) {
	now := time.Now()
	text, _, err := p.e.trust.Open(bus.About{Kind: bus.KindResult, Query: p.query.ID}, m.Data)
	if err != nil {
		return
	}
	h, rows, err := bus.DecodeItem(text)
	if err != nil || h.Query != p.query.ID {
		return
	}
	subject := bus.ResultSubject(p.query.ID, h.Host)
	if p.part != nil {
		subject = p.query.Subject(h.Host)
	}
	if m.Subject == subject {
		p.add(h, rows, now)
	}
}

// add adds a message of a host or a reducer.
func (p *published) add(h *bus.Header, rows []byte, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (h.Shard != nil) != (p.query.Reduced != nil && p.part == nil) {
		return
	}
	if h.Shard != nil {
		p.addShard(h, rows, now)
		return
	}
	a := p.hosts[h.Host]
	if a == nil { // it was not asked, or is not known yet
		return
	}
	if h.Echo != nil {
		a.measure(h.Echo, now)
	}
	r := a.last
	switch {
	case r == nil:
		r = p.begin(a, h, nil)
	case h.Incarnation > r.incarnation:
		r.replaced(now)
		r = p.begin(a, h, r)
	case h.Incarnation < r.incarnation:
		return // of an agent that was replaced
	}
	r.add(h, rows, now)
}

// begin begins to receive what one start of an agent sends. The caller holds p.mu.
func (p *published) begin(a *answers, h *bus.Header, before *hostResult) *hostResult {
	r := newHostResult(p, a.name, h.Incarnation)
	a.last, a.since = r, time.Now()
	r.again = before != nil
	r.joins = r.again || p.settled
	if !r.joins {
		close(a.begun)
	}
	return r
}

// accepted makes a result that joins known to the reader. The caller holds p.mu.
func (p *published) accepted(r *hostResult) {
	if r.joins && !p.over {
		p.queue = append(p.queue, fleet.Joined{Host: r.host, Result: r})
	}
}

// measure measures a host's clock; the most exact recent measurement counts.
func (a *answers) measure(e *bus.Echo, now time.Time) {
	ahead, by := e.Offset(now.UnixNano())
	if by >= 0 && (a.measured.IsZero() || by < a.uncertain || now.Sub(a.measured) > 10*time.Second) {
		a.ahead, a.uncertain, a.measured = ahead, by, now
	}
}

// Clock implements fleet.Published.
func (p *published) Clock(host string) (ahead, uncertain time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.hosts[host]
	if a == nil || a.measured.IsZero() {
		return 0, 0, errors.New("the clock is not known yet")
	}
	return a.ahead, a.uncertain, nil
}

// Expected implements fleet.Published.
func (p *published) Expected() (hosts, awaited int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.hosts {
		given := a.last != nil && a.last.first != nil && (a.last.first.Kind == bus.ItemRefused || a.last.read.Load())
		if !given && p.joins(a, now) {
			awaited++
		}
	}
	return len(p.hosts), awaited
}

// joins reports whether a host that has not answered may soon: it sends heartbeats. The caller holds p.mu.
func (p *published) joins(a *answers, now time.Time) bool {
	return now.Sub(a.since) < joining && p.silence(a, now) < leaving
}

// Settle implements fleet.Published.
func (p *published) Settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = true
	for _, a := range p.hosts {
		if r := a.last; r != nil && !a.claimed && !r.joins {
			r.joins = true
			if r.first != nil && r.first.Kind == bus.ItemBegin {
				p.accepted(r)
			}
		}
	}
}

// Joined implements fleet.Published.
func (p *published) Joined() <-chan fleet.Joined { return p.joined }

// Close implements fleet.Published. It returns when the hosts were told.
func (p *published) Close() {
	p.once.Do(func() {
		close(p.quit)
		<-p.led
		p.unsubscribe()
		p.endLocal()
		if !p.leads() {
			return
		}
		p.lease(bus.Lease{Over: true})
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = p.kv.Purge(ctx, bus.QueryKey(p.query.ID), jetstream.PurgeTTL(time.Hour)) // else it expires
	})
}

// leads reports whether the query ends with this root.
func (p *published) leads() bool { return p.keeps == nil && p.part == nil }

// stop asks all hosts to end. A standing query ends only when it is dropped.
func (p *published) stop() {
	if !p.leads() {
		return
	}
	p.mu.Lock()
	already := p.ending
	p.end()
	p.mu.Unlock()
	if !already {
		p.lease(bus.Lease{Ending: true})
	}
}

// ends notes that all hosts were asked to end.
func (p *published) ends() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// end notes that all hosts are asked to end: those that are silent are not waited for. The caller holds
// p.mu.
func (p *published) end() {
	if p.ending {
		return
	}
	p.ending = true
	now := time.Now()
	for _, a := range p.hosts {
		a.mute = a.last != nil && p.silence(a, now) > silentFor
	}
}

// lease sends a lease.
func (p *published) lease(l bus.Lease) {
	if p.part != nil {
		return
	}
	l.Query, l.Time, l.Head = p.query.ID, time.Now().UnixNano(), p.head
	if p.keeps != nil {
		l.Length = int64(p.keeps.lease)
	}
	if m, err := p.e.trust.Seal(bus.About{Kind: bus.KindLease, Query: l.Query}, bus.Encode(l)); err == nil {
		_ = p.e.nc.Publish(bus.LeaseSubject(l.Query), m)
	}
}

// lead sends leases and acknowledgements, and joins hosts that come later.
func (p *published) lead() {
	defer close(p.led)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	p.lease(bus.Lease{})
	last := time.Now()
	for {
		p.mu.Lock()
		var next fleet.Joined
		var joined chan fleet.Joined
		if len(p.queue) > 0 {
			next, joined = p.queue[0], p.joined
		}
		p.mu.Unlock()
		select {
		case joined <- next:
			p.mu.Lock()
			p.queue = p.queue[1:]
			p.mu.Unlock()
		case <-tick.C:
			now := time.Now()
			if now.Sub(last) >= bus.LeaseEvery {
				last = now
				p.mu.Lock()
				ending := p.ending
				p.mu.Unlock()
				p.lease(bus.Lease{Ending: ending})
				p.expect(now)
				if p.fallBack(now); ending {
					p.local.ends()
				}
			}
			p.acknowledge(now)
			p.finish(now)
		case <-p.quit:
			p.mu.Lock()
			if !p.over {
				p.over = true
				close(p.joined)
			}
			p.mu.Unlock()
			return
		}
	}
}

// acknowledge tells hosts what was received, and asks for what is missing.
func (p *published) acknowledge(now time.Time) {
	type message struct {
		host string
		bus.Control
	}
	var all []message
	p.mu.Lock()
	p.turn = (p.turn + 1) % turns
	for _, a := range p.hosts {
		if a.last == nil || len(p.hosts) > mostAcknowledged && a.turn != p.turn {
			continue
		}
		p.succeed(a, now)
		if c, ok := a.last.answer(now); ok {
			all = append(all, message{a.from(), c})
		}
		if a.shard != nil && a.shard.next != nil {
			if c, ok := a.shard.next.answer(p.query.ID, now); ok {
				all = append(all, message{a.shard.next.from, c})
			}
		}
	}
	p.mu.Unlock()
	for _, m := range all {
		if p.local != nil && p.local.control(m.host, &m.Control) {
			continue
		}
		if sealed, err := p.e.trust.Seal(bus.About{Kind: bus.KindControl, Query: p.query.ID, Host: m.host}, bus.Encode(m.Control)); err == nil {
			_ = p.e.nc.Publish(bus.HostSubject(m.host), sealed)
		}
	}
}

// silence returns how long a host has sent neither results nor heartbeats. The caller holds p.mu.
func (p *published) silence(a *answers, now time.Time) time.Duration {
	last := p.lastHeard(a)
	if r := a.last; r != nil && r.heard.After(last) {
		last = r.heard
	}
	return p.e.hosts.silence(last, now)
}

// abandons reports whether a host that has answered is not waited for. If the bus cannot be reached
// from here, all hosts are silent, and go on: they may be heard again as long as they have a lease.
// ended: other hosts have ended. The caller holds p.mu.
func (p *published) abandons(a *answers, ended bool, now time.Time) bool {
	unheard := now.Sub(a.last.heard) // it may send heartbeats, and not execute the query
	switch {
	case unheard > bus.LeaseLength:
		return true
	case p.ending:
		return a.mute || unheard > leaving
	case ended:
		return p.silence(a, now) > leaving
	}
	return false
}

// finish ends the result when only silent hosts are left, and asks hosts that began again
// to end when the others have. One that declines the query has not ended.
func (p *published) finish(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled || p.over || len(p.queue) > 0 || p.keeps != nil {
		return
	}
	again, ended := false, false
	for _, a := range p.hosts {
		ended = ended || a.last != nil && a.last.ended() && a.last.first != nil && a.last.first.Kind == bus.ItemBegin
	}
	for _, a := range p.hosts {
		switch r := a.last; {
		case a.shard != nil && (r == nil || !r.ended()): // if no reducer goes on, this root does
			return
		case r == nil && p.joins(a, now):
			return
		case r == nil, r.ended(), p.abandons(a, ended, now):
		case r.again && ended && p.leads():
			again = true
		default:
			return
		}
	}
	if again {
		p.end()
		return
	}
	p.over = true
	close(p.joined)
	for _, a := range p.hosts {
		if r := a.last; r != nil && !r.ended() {
			r.silent()
		}
	}
}
