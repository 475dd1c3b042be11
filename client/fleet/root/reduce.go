package root

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/server/wire/bus"
)

// ReduceOptions are those of Reduce.
type ReduceOptions struct {
	Options
	Name   string // of this reducer
	Shards int    // of the fleet: all its reducers have the same number
	Log    *slog.Logger
}

// reducer merges, for each query that names it, the results of the hosts of the shards that it
// owns, and follows those shards of others of which it is to take over.
type reducer struct {
	ReduceOptions
	e       *Engine
	start   string        // distinguishes this start from others
	owned   atomic.Int32  // shards
	running atomic.Int32  // queries
	kept    []atomic.Bool // shards of which only this reducer has all results
	inbox   chan *nats.Msg
	leases  chan lease

	// The fields below belong to Reduce's goroutine.
	shards  []lease
	feeds   []*feed // by shard; nil: it is not received here
	queries map[string]*reducing
	refused map[string]bool // queries that are not for here
}

// lease is the owner of a shard.
type lease struct {
	shard int
	owner string // "": none is known
	epoch uint64 // not 0: this reducer does
}

// reducing is a query that names this reducer.
type reducing struct {
	bus.Query
	until  time.Time // when its lease ends
	ending bool      // all hosts were asked to end
	of     map[int]*merger
}

// merger is a reduction that runs.
type merger struct {
	*reduction
	stop context.CancelFunc
	told lease // the last that it was told
}

// ReducerGC is the percentage of garbage collection for a process that only reduces. Its heap is
// small for what it allocates: with Go's 100, collection took a sixth of its processor time.
const ReducerGC = 400

// Reduce merges the results of the hosts of shards until ctx is done. It waits for a bus that
// cannot be reached.
func Reduce(ctx context.Context, o ReduceOptions) error {
	r := &reducer{ReduceOptions: o, start: epochName(uint64(time.Now().UnixNano())), inbox: make(chan *nats.Msg, 4096), leases: make(chan lease), shards: make([]lease, o.Shards), kept: make([]atomic.Bool, o.Shards), feeds: make([]*feed, o.Shards),
		queries: map[string]*reducing{}, refused: map[string]bool{}}
	for k := range r.shards {
		r.shards[k].shard = k
	}
	if r.e = dialReducer(ctx, &r.Options, "reducing waits for the bus", o.Log); r.e == nil {
		return nil
	}
	defer r.e.Close()
	for _, subject := range []string{bus.AllQueries, bus.AllLeases, bus.HostSubject(bus.ReducerName(r.Name))} {
		if _, err := r.e.nc.ChanSubscribe(subject, r.inbox); err != nil {
			return fmt.Errorf("the bus: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { r.beat(ctx) })
	for k := range r.shards {
		all.Go(func() { r.hold(ctx, k) })
	}
	defer r.endAll()
	tick, reread := time.NewTicker(bus.LeaseEvery), time.NewTicker(rereadEvery)
	defer tick.Stop()
	defer reread.Stop()
	r.read(ctx)
	for {
		select {
		case m := <-r.inbox:
			r.receive(ctx, m)
		case l := <-r.leases:
			r.shards[l.shard] = l
			r.arrange(ctx)
		case <-tick.C:
			r.expire()
			r.arrange(ctx)
		case <-reread.C:
			r.read(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// beat sends heartbeats.
func (r *reducer) beat(ctx context.Context) {
	name := bus.ReducerName(r.Name)
	for again := true; again; again = pause(ctx, bus.LeaseEvery) {
		b := bus.Heartbeat{Host: name, Incarnation: r.start, Time: time.Now().UnixNano(), Queries: int(r.running.Load()), Shards: r.Shards}
		if m, err := r.Trust.Seal(bus.About{Kind: bus.KindHeartbeat, Host: name}, bus.Encode(b)); err == nil {
			_ = r.e.nc.Publish(bus.HeartbeatSubject(name), m)
		}
	}
}

// quota is how many shards each reducer owns at most, while all are there.
func (r *reducer) quota() int32 {
	n := max(len(r.e.hosts.merging(r.Shards)), 1)
	return int32((r.Shards + n - 1) / n)
}

// hold owns a shard whenever no other reducer does, as long as this reducer does not own more than
// its part. What it owned before it was started again is left to another one, which has followed.
func (r *reducer) hold(ctx context.Context, shard int) {
	t := &tenure{e: r.e, key: bus.ShardLease(shard, r.Shards), name: r.Name, start: r.start}
	began := time.Now()
	say := func(owner string, epoch uint64) {
		select {
		case r.leases <- lease{shard, owner, epoch}:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		t.alone = time.Since(began) > 2*bus.LeaseEvery && !slices.ContainsFunc(r.e.hosts.merging(r.Shards), func(name string) bool { return name != r.Name })
		t.first, t.after = r.owned.Load() < r.quota(), tenureLength
		if t.next = t.first; !t.first {
			t.after = 2 * tenureLength // others are to take it
		}
		mine, err := t.begin(ctx)
		if err == nil && !mine {
			say(t.holder, 0)
		}
		if mine {
			r.owned.Add(1)
			r.Log.Info("shard is owned here", "shard", shard, "epoch", t.revision)
			say(r.Name, t.revision)
			released := r.renew(ctx, t, &r.kept[shard])
			if !released {
				r.owned.Add(-1)
			}
			say("", 0)
			if released || ctx.Err() != nil {
				t.end()
			}
			r.Log.Info("shard is not owned here any more", "shard", shard)
		}
		pause(ctx, renewEvery)
	}
}

// renew renews the lease of a shard until another reducer has it, ctx is done, or this reducer
// releases it since it owns more than its part and others can have what it has merged.
func (r *reducer) renew(ctx context.Context, t *tenure, kept *atomic.Bool) (released bool) {
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.renew(renewing, stop)
	}()
	for pause(renewing, 2*renewEvery) {
		if n := r.owned.Load(); !kept.Load() && n > r.quota() && r.owned.CompareAndSwap(n, n-1) {
			released = true
			stop()
		}
	}
	<-ended
	return released
}

// receive handles a message of the bus.
func (r *reducer) receive(ctx context.Context, m *nats.Msg) {
	if id, ok := strings.CutPrefix(m.Subject, strings.TrimSuffix(bus.AllLeases, "*")); ok {
		r.lease(id, m.Data)
		return
	}
	if m.Subject == bus.HostSubject(bus.ReducerName(r.Name)) {
		text, _, err := r.Trust.Open(bus.About{Kind: bus.KindControl, Host: bus.ReducerName(r.Name)}, m.Data)
		var c bus.Control
		if err != nil || bus.Decode(text, &c) != nil || r.queries[c.Query] == nil {
			return
		}
		for _, x := range r.queries[c.Query].of {
			if x.told.epoch > 0 && epochName(x.told.epoch) == c.Incarnation {
				x.instruct(order{incarnation: c.Incarnation, next: c.Next, missing: c.Missing})
			}
		}
		return
	}
	if c, ok := bus.Changed(m); ok {
		r.change(c)
		r.arrange(ctx)
	}
}

func (r *reducer) read(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, rereadEvery)
	defer cancel()
	changes, err := bus.Queries(short, r.e.nc)
	if err != nil {
		return // the bus is away
	}
	for id := range r.refused {
		if !slices.ContainsFunc(changes, func(c bus.Change) bool { return c.Query == id }) {
			delete(r.refused, id)
		}
	}
	for _, c := range changes {
		r.change(c)
	}
	r.arrange(ctx)
}

// change handles a change of the bucket of queries.
func (r *reducer) change(c bus.Change) {
	if c.Over || c.Value == nil || r.queries[c.Query] != nil || r.refused[c.Query] {
		return // the end comes as a lease
	}
	r.refused[c.Query] = true
	text, author, err := r.Trust.Open(bus.About{Kind: bus.KindQuery, Query: c.Query, Host: bus.ReducerName(r.Name)}, c.Value)
	q := &reducing{until: time.Now().Add(bus.LeaseLength), of: map[int]*merger{}}
	if err != nil || bus.Decode(text, &q.Query) != nil || q.ID != c.Query || !q.Valid() || q.Reduced == nil || q.Reduced.Shards != r.Shards || !slices.Contains(q.Reduced.Reducers, r.Name) {
		return // another query
	}
	if r.Trust.Live(q.ID) != nil {
		return
	}
	r.Log.Info("query", "id", q.ID, "author", author, "hosts", len(q.Hosts))
	r.queries[q.ID] = q
	r.running.Store(int32(len(r.queries)))
}

// lease handles a lease: the query runs on, or ends.
func (r *reducer) lease(id string, message []byte) {
	q := r.queries[id]
	if q == nil {
		return
	}
	text, _, err := r.Trust.Open(bus.About{Kind: bus.KindLease, Query: id}, message)
	var l bus.Lease
	if err != nil || bus.Decode(text, &l) != nil || l.Query != id {
		return
	}
	if q.until = time.Now().Add(bus.LeaseLength); l.Over {
		r.end(q)
		return
	}
	if q.ending = q.ending || l.Ending; q.ending {
		for _, x := range q.of {
			x.p.ends()
		}
	}
}

// expire ends the queries whose leases have stopped, or that may not run any more.
func (r *reducer) expire() {
	for _, q := range r.queries {
		if time.Now().After(q.until) || r.Trust.Live(q.ID) != nil {
			r.end(q)
		}
	}
}

func (r *reducer) end(q *reducing) {
	for _, x := range q.of {
		x.stop()
	}
	for _, x := range q.of {
		<-x.ended
	}
	delete(r.queries, q.ID)
	r.refused[q.ID] = true // it may still be in the bucket
	r.running.Store(int32(len(r.queries)))
}

func (r *reducer) endAll() {
	for _, q := range r.queries {
		r.end(q)
	}
}

// arrange begins to merge the shards that are owned here or followed, and ends the others. A
// query that does not name the new owner of a shard is still merged by the one before.
func (r *reducer) arrange(ctx context.Context) {
	for k, now := range r.shards {
		r.kept[k].Store(slices.ContainsFunc(slices.Collect(maps.Values(r.queries)), func(q *reducing) bool { return q.of[k] != nil && q.of[k].lost.Load() }))
		here := (now.epoch > 0 || r.follows(k)) && r.listen(k)
		used := here
		for _, q := range r.queries {
			x := q.of[k]
			remains := x != nil && x.told.epoch > 0 && !slices.Contains(q.Reduced.Reducers, now.owner)
			switch {
			case remains:
				used = true
				continue
			case x == nil && here:
				x = r.begin(ctx, q, k)
			case x != nil && !here:
				x.stop()
				<-x.ended
				delete(q.of, k)
				continue
			}
			if x != nil && x.told != now {
				x.told = now
				x.instruct(order{epoch: now.epoch, follow: now.epoch == 0})
			}
		}
		if f := r.feeds[k]; f != nil && !used {
			_ = f.sub.Unsubscribe()
			r.feeds[k] = nil
		}
	}
}

// follows reports whether this reducer is the one that is to take over a shard of another one:
// one of those that own none, if there are any.
func (r *reducer) follows(shard int) bool {
	var spare, others []string
	for _, name := range r.e.hosts.merging(r.Shards) {
		if name == r.shards[shard].owner {
			continue
		}
		if others = append(others, name); !slices.ContainsFunc(r.shards, func(l lease) bool { return l.owner == name }) {
			spare = append(spare, name)
		}
	}
	if spare != nil {
		others = spare
	}
	return len(others) > 0 && others[shard%len(others)] == r.Name
}

// begin begins to merge a shard; nil: it has no hosts.
func (r *reducer) begin(ctx context.Context, q *reducing, shard int) *merger {
	var hosts []string
	for _, h := range q.Hosts {
		if bus.ShardOf(h, r.Shards) == shard {
			hosts = append(hosts, h)
		}
	}
	if hosts == nil {
		return nil
	}
	name := bus.ReducerName(r.Name)
	about := bus.About{Kind: bus.KindResult, Query: q.ID, Host: name}
	x := newReduction(r.e, q.Query, shard, hosts, name, func(m []byte) {
		if sealed, err := r.Trust.Seal(about, m); err == nil {
			_ = r.e.nc.Publish(bus.ResultSubject(q.ID, name), sealed)
		}
	})
	if r.feeds[shard].add(x.p); q.ending {
		x.p.ends()
	}
	running, stop := context.WithCancel(ctx)
	q.of[shard] = &merger{reduction: x, stop: stop, told: lease{shard: -1}}
	go x.run(running)
	return q.of[shard]
}
