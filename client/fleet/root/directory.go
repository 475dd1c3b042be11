package root

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"endoscope/server/wire/bus"
)

// directory are the hosts of a fleet: those that have described themselves, with their
// last heartbeats, and those that the trust knows.
type directory struct {
	trust bus.Trust
	mu    sync.Mutex
	hosts map[string]*host
	heard time.Time    // when the last heartbeat arrived
	again time.Time    // when the first arrived after a time without any; zero: there was none
	stop  func() error // ends the watch of descriptions
}

// host is one host of the fleet.
type host struct {
	bus.Host
	last  bus.Heartbeat
	heard time.Time // zero: never
}

// openDirectory reads the hosts of a bus, and follows their heartbeats.
func openDirectory(ctx context.Context, nc *nats.Conn, trust bus.Trust) (*directory, error) {
	d := &directory{trust: trust, hosts: map[string]*host{}}
	if _, err := nc.Subscribe(bus.AllHeartbeats, func(m *nats.Msg) { d.beat(m.Data, time.Now()) }); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, bus.HostBucket)
	if err != nil {
		return nil, err
	}
	w, err := kv.WatchAll(context.Background()) // it ends with the connection
	if err != nil {
		return nil, err
	}
	for read := false; !read; {
		select {
		case e := <-w.Updates():
			if read = e == nil; !read { // else all that exist were read
				d.described(e)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.stop = w.Stop
	go func() {
		for e := range w.Updates() {
			if e != nil {
				d.described(e)
			}
		}
	}()
	return d, d.readHeartbeats(ctx, js)
}

// readHeartbeats reads the last heartbeat of each host.
func (d *directory) readHeartbeats(ctx context.Context, js jetstream.JetStream) error {
	c, err := js.OrderedConsumer(ctx, bus.HeartbeatStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy})
	if err != nil {
		return err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	for left := info.NumPending; left > 0; {
		batch, err := c.FetchNoWait(int(min(left, 1000)))
		if err != nil {
			return err
		}
		n := uint64(0)
		for m := range batch.Messages() {
			n++
			if meta, err := m.Metadata(); err == nil {
				d.beat(m.Data(), meta.Timestamp)
			}
		}
		if n == 0 {
			return nil // they were replaced meanwhile
		}
		left -= min(n, left)
	}
	return nil
}

// described records a host's description.
func (d *directory) described(e jetstream.KeyValueEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Operation() != jetstream.KeyValuePut {
		maps.DeleteFunc(d.hosts, func(name string, _ *host) bool { return bus.Token(name) == e.Key() })
		return
	}
	text, _, err := d.trust.Open(bus.About{Kind: bus.KindHost}, e.Value())
	var h bus.Host
	if err == nil && bus.Decode(text, &h) == nil && bus.Token(h.Name) == e.Key() {
		d.of(h.Name).Host = h
	}
}

// of returns a host of the directory. The caller holds d.mu.
func (d *directory) of(name string) *host {
	h := d.hosts[name]
	if h == nil {
		h = &host{Host: bus.Host{Name: name}}
		d.hosts[name] = h
	}
	return h
}

// beat records a heartbeat.
func (d *directory) beat(data []byte, at time.Time) {
	text, _, err := d.trust.Open(bus.About{Kind: bus.KindHeartbeat}, data)
	var b bus.Heartbeat
	if err != nil || bus.Decode(text, &b) != nil || b.Host == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.deaf(now) {
		d.again = now
	}
	d.heard = now
	if h := d.of(b.Host); at.After(h.heard) {
		h.last, h.heard = b, at
	}
}

// deaf reports whether no host has been heard for some time. The caller holds d.mu.
func (d *directory) deaf(now time.Time) bool {
	return !d.heard.IsZero() && now.Sub(d.heard) > 2*bus.LeaseEvery
}

// silence returns how long a host has been silent that was last heard at a time. Time in which no host
// was heard does not count, unless it is long: this process, or its way to the bus, has failed. A host
// that was never heard is silent.
func (d *directory) silence(last, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silenceLocked(last, now)
}

// silenceLocked is silence. The caller holds d.mu.
func (d *directory) silenceLocked(last, now time.Time) time.Duration {
	if d.deaf(now) && now.Sub(d.heard) < bus.LeaseLength {
		now = d.heard
	}
	if !last.IsZero() && d.again.After(last) {
		last = d.again
	}
	return max(0, now.Sub(last))
}

// aliveLocked is alive. The caller holds d.mu.
func (d *directory) aliveLocked(h *host) bool {
	return d.silenceLocked(h.heard, time.Now()) < silentFor
}

// alive reports whether a host sends heartbeats.
func (d *directory) alive(h *host) bool { return d.silence(h.heard, time.Now()) < silentFor }

// list returns copies of all hosts, by name.
func (d *directory) list() (all []*host) {
	known := d.trust.Hosts()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range known {
		if have := d.of(h.Name); have.Host.Labels == nil {
			have.Host.Labels = h.Labels
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.hosts)) {
		if _, reducer := bus.Reducer(name); !reducer {
			h := *d.hosts[name]
			all = append(all, &h)
		}
	}
	return all
}

// keepers returns the reducers that keep standing queries and send heartbeats, by name.
func (d *directory) keepers() []*host {
	return d.reducers(func(h *host) bool { return h.last.Shards == 0 })
}

// reducers returns the reducers of a kind that send heartbeats, by name.
func (d *directory) reducers(are func(*host) bool) (all []*host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.hosts)) {
		if _, reducer := bus.Reducer(name); reducer && d.aliveLocked(d.hosts[name]) && are(d.hosts[name]) {
			h := *d.hosts[name]
			all = append(all, &h)
		}
	}
	return all
}

// merging returns the names of the reducers that merge so many shards and send heartbeats, in
// order.
func (d *directory) merging(shards int) (names []string) {
	for _, h := range d.reducers(func(h *host) bool { return h.last.Shards == shards }) {
		name, _ := bus.Reducer(h.Name)
		names = append(names, name)
	}
	return names
}

// mostReducers is how many reducers a query names.
const mostReducers = 32

// reduction returns the number of shards that most reducers state, and these reducers; nil: there
// are no reducers.
func (d *directory) reduction() (best *bus.Reduced) {
	for _, h := range d.reducers(func(h *host) bool { return h.last.Shards > 0 && h.last.Shards <= bus.MostShards }) {
		if best != nil && h.last.Shards == best.Shards {
			continue
		}
		if names := d.merging(h.last.Shards); best == nil || len(names) > len(best.Reducers) {
			best = &bus.Reduced{Shards: h.last.Shards, Reducers: names[:min(len(names), mostReducers)]}
		}
	}
	return best
}

// living returns how many hosts send heartbeats.
func (d *directory) living() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, h := range d.hosts {
		if _, reducer := bus.Reducer(name); !reducer && d.aliveLocked(h) {
			n++
		}
	}
	return n
}

// lastHeard returns when a host was last heard; zero: never.
func (d *directory) lastHeard(name string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[name]; h != nil {
		return h.heard
	}
	return time.Time{}
}

var errNoHosts = errors.New("the fleet has no host yet: endoscoped --fleet URL joins one")
