package root

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// shard is what reducers have sent of one shard, beside the result. It is guarded by
// published.mu.
type shard struct {
	number int
	hosts  []string // of the query
	from   string   // the reducer whose states count, as the bus names it
	covers bus.Coverage
	epoch  uint64             // of the reducer that sent covers
	lost   map[bus.Start]bool // starts of agents that only the epoch before covered
	gaps   []wire.HostState   // of these, once the hosts were started again
	upto   int64              // windows that end here or before were taken
	next   *succession        // of a newer epoch than that of the result; nil: there is none
}

// succession is what the reducer of a newer epoch has sent. It replaces the result when it
// covers that, or else after some time: two epochs never count together.
type succession struct {
	from, incarnation string
	stream            *bus.Stream
	since             time.Time
	header            *bus.Header // of the last message
	items             []*bus.Item
}

const (
	// succeedingFor is how long the states of a newer epoch wait for those of hosts that the
	// ones before it cover.
	succeedingFor = 10 * time.Second
	// fallingBack is how long a shard may be without a reducer before this root merges the
	// results of its hosts itself.
	fallingBack = 3 * tenureLength
)

// reduced returns which reducers are to merge the results of a query; nil: none, since there
// are none, or since they cannot.
func (s *session) reduced(ctx context.Context, text string, hosts []*host) *bus.Reduced {
	r := s.e.hosts.reduction()
	if r == nil {
		return nil
	}
	a, err := s.askOf(ctx, hosts, &bus.Question{Describe: text, Share: true})
	if err != nil || !a.Description.Merges {
		return nil
	}
	return r
}

// divide divides the hosts of the query among shards.
func (p *published) divide(shards int) {
	for _, host := range p.query.Hosts {
		n := bus.ShardOf(host, shards)
		name := shardName(n)
		if p.hosts[name] == nil {
			p.hosts[name] = newAnswers(name)
			p.hosts[name].shard = &shard{number: n, upto: math.MinInt64}
		}
		of := p.hosts[name].shard
		of.hosts = append(of.hosts, host)
	}
}

func shardName(n int) string { return fmt.Sprintf("shard %d", n) }

// Shard implements fleet.Published.
func (p *published) Shard(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.hosts[name]; a != nil && a.shard != nil {
		return a.shard.hosts
	}
	return nil
}

// from returns the sender of the result, as the bus names it.
func (a *answers) from() string {
	if a.shard != nil {
		return a.shard.from
	}
	return a.name
}

// lastHeard returns when a host, or one of the reducers of a shard, was last heard.
func (p *published) lastHeard(a *answers) (last time.Time) {
	if a.shard == nil {
		return p.e.hosts.lastHeard(a.name)
	}
	for _, name := range p.query.Reduced.Reducers {
		if t := p.e.hosts.lastHeard(bus.ReducerName(name)); t.After(last) {
			last = t
		}
	}
	return last
}

// epochName returns an epoch as the incarnation of what a reducer sends. Later ones sort after
// it.
func epochName(epoch uint64) string { return fmt.Sprintf("%016x", epoch) }

// addShard adds a message of a reducer. The caller holds p.mu.
func (p *published) addShard(h *bus.Header, rows []byte, now time.Time) {
	a := p.hosts[shardName(h.Shard.Number)]
	if _, reducer := bus.Reducer(h.Host); a == nil || !reducer || h.Incarnation != epochName(h.Shard.Epoch) {
		return
	}
	r := a.last
	switch {
	case r == nil:
		r = p.begin(a, h, nil)
		r.shard, a.shard.from = a.shard, h.Host
	case h.Incarnation < r.incarnation, h.Incarnation == r.incarnation && h.Host != a.shard.from:
		return
	case h.Incarnation > r.incarnation:
		a.shard.follow(h, rows, now)
		p.succeed(a, now)
		return
	}
	r.add(h, rows, now)
}

// follow adds a message of a newer epoch.
func (s *shard) follow(h *bus.Header, rows []byte, now time.Time) {
	n := s.next
	if n == nil || h.Incarnation > n.incarnation {
		n = &succession{from: h.Host, incarnation: h.Incarnation, stream: bus.NewStream(), since: now}
		s.next = n
	}
	if h.Incarnation != n.incarnation || h.Host != n.from {
		return
	}
	n.header = h
	for _, it := range n.stream.Add(h, rows, now) {
		if it.Total {
			n.items = slices.DeleteFunc(n.items, func(x *bus.Item) bool { return x.Total })
		}
		n.items = append(n.items, it)
	}
}

// answer returns what the reducer must be told now: nothing is acknowledged.
func (n *succession) answer(query string, now time.Time) (c bus.Control, ok bool) {
	c, ok = n.stream.Answer(0, now)
	c.Query, c.Incarnation = query, n.incarnation
	return c, ok
}

// succeed makes a newer epoch the result if it covers that, or is waited for no longer. The
// caller holds p.mu.
func (p *published) succeed(a *answers, now time.Time) {
	s, r := a.shard, a.last
	if s == nil || s.next == nil || len(s.next.items) == 0 || r == nil {
		return
	}
	n := s.next
	begin := n.items[0]
	if r.first == nil && !r.ended() { // the result has not begun
		s.next = nil
		r.incarnation, r.stream, s.from = n.incarnation, n.stream, n.from
		r.heard = now
		r.deliver(n.header, n.items, now)
		return
	}
	if begin.Kind == bus.ItemRefused && n.incarnation == epochName(lastEpoch) { // no host goes on
		s.next = nil
		r.silent()
		return
	}
	if r.first == nil || begin.Kind != bus.ItemBegin || !slices.Equal(begin.Columns, r.first.Columns) {
		return
	}
	lacks := 0
	if s.covers != nil {
		at := slices.IndexFunc(n.items, func(it *bus.Item) bool { return it.Shard != nil && it.Kind == bus.ItemRows && !it.Shard.Once })
		if at < 0 {
			return
		}
		if lacks = n.items[at].Shard.Covers.Lacks(s.covers); lacks > 0 && now.Sub(n.since) < succeedingFor {
			return
		}
	}
	s.next = nil
	r.mu.Lock()
	r.incarnation, r.stream, s.from, r.taken = n.incarnation, n.stream, n.from, 0
	if lacks > 0 {
		r.queue = append(r.queue, &bus.Item{Header: &bus.Header{Kind: bus.ItemNotice, Text: fmt.Sprintf("%s is merged by another reducer, which lacks newer results of %d hosts", a.name, lacks)}})
	}
	r.mu.Unlock()
	r.heard = now
	r.arrived.Store(now.UnixNano())
	r.deliver(n.header, n.items[1:], now)
}

// counts reports whether an item counts, and notes it. Windows that an earlier epoch has given
// do not count again. began is when the query did.
func (s *shard) counts(it *bus.Item, began, now time.Time) bool {
	switch of := it.Shard; {
	case it.Kind != bus.ItemRows || of == nil:
	case !of.Once:
		s.compare(of, began, now)
		s.covers, s.epoch = of.Covers, of.Epoch
	case of.End <= s.upto:
		return false
	default:
		s.upto = of.End
	}
	return true
}

// compare finds the starts of agents whose results went with the reducer of the epoch before: the
// next one had received nothing of them, and the hosts were started again. No reducer knows of
// these gaps.
func (s *shard) compare(of *bus.Shard, began, now time.Time) {
	changed := s.covers != nil && of.Epoch != s.epoch
	if !changed && len(s.lost) == 0 {
		return
	}
	have := of.Covers.Versions()
	if changed {
		s.lost = map[bus.Start]bool{}
		for start := range s.covers.Versions() {
			s.lost[start] = true
		}
	}
	last := map[int]uint64{}
	for start := range have {
		delete(s.lost, start)
		last[start.Host] = max(last[start.Host], start.Run)
	}
	for start := range s.lost {
		if start.Run < last[start.Host] && start.Host < len(s.hosts) {
			delete(s.lost, start)
			gap := wire.HostGap{Run: fmt.Sprintf("%016x", start.Run), From: began, To: now}
			s.gaps = append(s.gaps, wire.HostState{Name: s.hosts[start.Host], State: wire.HostAnswered, Gaps: []wire.HostGap{gap}})
		}
	}
}

// localReductions merge, at the root, the results of shards that have no reducer. They belong
// to the goroutine of published.lead.
type localReductions struct {
	of  map[string]*reduction // by the names by which the root knows them
	ctx context.Context
	end context.CancelFunc
}

// lastEpoch is that of a root that merges the results of a shard itself: no other epoch
// replaces it.
const lastEpoch = ^uint64(0)

// fallBack merges the results of the shards that have had no reducer for some time.
func (p *published) fallBack(now time.Time) {
	if p.query.Reduced == nil || p.part != nil {
		return
	}
	var without []*shard
	p.mu.Lock()
	for _, a := range p.hosts {
		heard := a.since
		if a.last != nil {
			heard = a.last.heard
		}
		if now.Sub(heard) > fallingBack && (a.last == nil || !a.last.ended()) && !p.over {
			without = append(without, a.shard)
		}
	}
	p.mu.Unlock()
	for _, s := range without {
		if p.local == nil {
			p.local = &localReductions{of: map[string]*reduction{}}
			p.local.ctx, p.local.end = context.WithCancel(context.Background())
		}
		name := bus.ReducerName(shardName(s.number))
		if p.local.of[name] != nil {
			continue
		}
		r := newReduction(p.e, p.query, s.number, s.hosts, name, func(m []byte) {
			if h, rows, err := bus.DecodeItem(m); err == nil {
				p.add(h, rows, time.Now())
			}
		})
		if r.p.subscribe(bus.PartsOf(p.query.ID, s.number)) != nil {
			continue // it is tried again
		}
		r.instruct(order{epoch: lastEpoch})
		p.local.of[name] = r
		go r.run(p.local.ctx)
	}
}

// control passes what the root says to one of its own reductions; false: it is for another one.
func (l *localReductions) control(to string, c *bus.Control) bool {
	r := l.of[to]
	if r != nil {
		r.instruct(order{incarnation: c.Incarnation, next: c.Next, missing: c.Missing})
	}
	return r != nil
}

// ends notes that all hosts were asked to end.
func (l *localReductions) ends() {
	if l == nil {
		return
	}
	for _, r := range l.of {
		r.p.ends()
	}
}

// endLocal ends the root's own reductions.
func (p *published) endLocal() {
	if p.local == nil {
		return
	}
	p.local.end()
	for _, r := range p.local.of {
		<-r.ended
	}
}
