package root

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/client/fleet"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// KeepOptions are those of Keep.
type KeepOptions struct {
	Options
	Name  string             // of this reducer
	Store wire.StandingStore // where results are stored
	Lease time.Duration      // how long hosts run a query on when this reducer is gone; 0: 10 min
	Log   *slog.Logger
}

// keeping is how a standing query is kept.
type keeping struct {
	lease  time.Duration
	value  []byte // the query as it is in the bucket
	chosen func(host string, labels map[string]string) bool
}

// keeper keeps the standing queries that name this reducer, unless another one does: it renews
// their leases, is their root, and stores their results. It has the results of the others, too.
type keeper struct {
	KeepOptions
	e       *Engine
	kept    map[string]*kept // by query; nil: it is not for here, or was refused
	all     sync.WaitGroup
	changed chan bus.Change
}

// kept is a standing query that runs.
type kept struct{ stop context.CancelFunc }

const (
	// rereadEvery is the interval at which the bucket of queries is read, since changes may
	// be lost.
	rereadEvery = 5 * time.Second
	// againAfter is how long a query waits that could not be executed.
	againAfter = 2 * time.Second
)

// Keep keeps standing queries until ctx is done. It waits for a bus that cannot be reached.
func Keep(ctx context.Context, o KeepOptions) error {
	o.Lease = cmp.Or(o.Lease, bus.MostStandingLease)
	e := dialReducer(ctx, &o.Options, "standing queries wait for the bus", o.Log)
	if e == nil {
		return nil
	}
	k := &keeper{KeepOptions: o, e: e, kept: map[string]*kept{}, changed: make(chan bus.Change, 256)}
	defer k.e.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer k.all.Wait()
	defer cancel()
	for _, subject := range []string{bus.AllQueries, bus.AllLeases} {
		if _, err := k.e.nc.Subscribe(subject, k.hear); err != nil {
			return fmt.Errorf("the bus: %w", err)
		}
	}
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for {
		k.read(ctx)
		for again := false; !again; {
			select {
			case c := <-k.changed:
				k.change(ctx, c)
			case <-tick.C:
				again = true
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// dialReducer connects a reducer to its bus, and waits for one that cannot be reached; nil: ctx
// is done.
func dialReducer(ctx context.Context, o *Options, waits string, log *slog.Logger) *Engine {
	if o.Trust == nil {
		o.Trust = bus.Open{}
	}
	_, open := o.Trust.(bus.Open)
	o.Reducer = !open
	for said := false; ; said = true {
		e, err := Dial(ctx, *o)
		if err == nil {
			return e
		}
		if !said {
			log.Warn(waits, "error", err)
		}
		if !pause(ctx, againAfter) {
			return nil
		}
	}
}

// pause waits; false: ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// hear receives a change of the bucket, or a lease, which may be a tombstone. What is lost is
// read later.
func (k *keeper) hear(m *nats.Msg) {
	c, ok := bus.Changed(m)
	if id, lease := strings.CutPrefix(m.Subject, strings.TrimSuffix(bus.AllLeases, "*")); lease {
		c, ok = bus.Change{Query: id, Value: m.Data, Over: true}, true
	}
	if !ok {
		return
	}
	select {
	case k.changed <- c:
	default:
	}
}

func (k *keeper) read(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, rereadEvery)
	defer cancel()
	changes, err := bus.Queries(short, k.e.nc)
	if err != nil {
		return // the bus is away
	}
	for _, over := range []bool{true, false} { // tombstones first
		for _, c := range changes {
			if c.Over == over {
				k.change(ctx, c)
			}
		}
	}
}

// change handles a change of the bucket.
func (k *keeper) change(ctx context.Context, c bus.Change) {
	if c.Value == nil {
		return // only a tombstone ends a standing query
	}
	if c.Over {
		k.tombstone(c)
		return
	}
	if _, known := k.kept[c.Query]; known {
		return
	}
	text, author, err := k.Trust.Open(bus.About{Kind: bus.KindQuery, Query: c.Query, Host: bus.ReducerName(k.Name)}, c.Value)
	var q bus.Query
	if err != nil || bus.Decode(text, &q) != nil || q.ID != c.Query || !q.Valid() || q.Standing == nil || !slices.Contains(q.Standing.Keepers, k.Name) {
		return // another query
	}
	k.kept[q.ID] = nil
	results, err := k.Store.Open(wire.StandingQuery{ID: q.ID, Name: q.Standing.Name, Author: author, Statement: q.Text, Created: time.Unix(0, q.Issued)})
	if err != nil {
		k.Log.Warn("a standing query is refused", "name", q.Standing.Name, "author", author, "error", err)
		return
	}
	k.Log.Info("standing query", "name", q.Standing.Name, "author", author, "id", q.ID)
	running, stop := context.WithCancel(ctx)
	k.kept[q.ID] = &kept{stop}
	k.all.Go(func() { k.run(running, &q, c.Value, results) })
}

// tombstone ends a query that its author has dropped.
func (k *keeper) tombstone(c bus.Change) {
	if known, ok := k.kept[c.Query]; ok && known == nil {
		return
	}
	text, from, err := k.Trust.Open(bus.About{Kind: bus.KindLease, Query: c.Query}, c.Value)
	var l bus.Lease
	if err != nil || bus.Decode(text, &l) != nil || l.Query != c.Query || !l.Over {
		return
	}
	if q := k.kept[c.Query]; q != nil {
		q.stop()
		k.kept[c.Query] = nil
	}
	k.Store.Drop(c.Query, from) // it may have been kept before a restart
}

// run keeps one query, or waits until another reducer does not, until ctx is done.
func (k *keeper) run(ctx context.Context, q *bus.Query, value []byte, results wire.StandingResults) {
	t := &tenure{e: k.e, key: q.ID, name: k.Name, first: q.Standing.Keepers[0] == k.Name, next: true}
	log := &records{e: k.e, query: q.ID, results: results, log: k.Log}
	for ctx.Err() == nil {
		mine, err := t.begin(ctx)
		if err == nil {
			err = log.follow(ctx)
		}
		if mine && err == nil {
			err = k.keep(ctx, q, value, t, log)
		}
		if mine && ctx.Err() != nil {
			t.end()
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !errors.Is(err, bus.ErrMoved):
			results.Report(wire.StandingState{State: wire.StandingWaiting, Error: err.Error()})
			pause(ctx, againAfter)
		default:
			results.Report(wire.StandingState{State: wire.StandingStandby})
			pause(ctx, renewEvery)
		}
	}
}

// keep keeps a query until that fails, or another reducer does.
func (k *keeper) keep(ctx context.Context, q *bus.Query, value []byte, t *tenure, log *records) error {
	k.Log.Info("standing query is kept here", "name", q.Standing.Name, "id", q.ID)
	keeping, stop := context.WithCancelCause(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { t.renew(keeping, func() { stop(bus.ErrMoved) }) })
	err := k.collect(keeping, q, value, log)
	if moved := context.Cause(keeping); moved != nil {
		err = moved
	}
	stop(nil)
	renewal.Wait()
	return err
}

// collect combines the results of the hosts and stores them, until that fails.
func (k *keeper) collect(ctx context.Context, q *bus.Query, value []byte, log *records) error {
	results := log.results
	stmt, err := parser.Parse(q.Text)
	if err != nil {
		return err
	}
	of, ok := stmt.(*parser.Query)
	if !ok {
		return fmt.Errorf("it is not a query")
	}
	keeps := &keeping{lease: k.Lease, value: value, chosen: planner.ChooseHosts(of, q.Text, expr.EvalConst)}
	hosts := k.e.hosts.selected(of, q.Text)
	p, err := k.e.receiveOf(*q, hosts, keeps)
	if err != nil {
		return err
	}
	p.query.Hosts = nil
	for _, h := range hosts {
		p.query.Hosts = append(p.query.Hosts, h.Name)
	}
	p.expect(time.Now())
	go p.lead()
	res, err := fleet.Keep(ctx, stmt, p, latenessOf(q.Prelude), results.Stored())
	if err != nil {
		return err
	}
	defer res.Close()
	if err := results.Begin(res.Columns()); err != nil {
		return err
	}
	reporting, stop := context.WithCancel(ctx)
	var reports sync.WaitGroup
	defer reports.Wait()
	defer stop()
	reports.Go(func() {
		for again := true; again; again = pause(reporting, time.Second) {
			results.Report(stateOf(res))
		}
	})
	return store(ctx, res, log)
}

// store stores windows as they are given.
func store(ctx context.Context, res *fleet.Standing, log *records) error {
	var rows []*batch.Batch
	release := func() {
		for _, b := range rows {
			b.Release()
		}
		rows = nil
	}
	defer release()
	for {
		ev, err := res.Next(ctx)
		if err != nil {
			return err
		}
		switch ev.Kind {
		case wire.Rows:
			rows = append(rows, ev.Batch)
		case wire.Flush:
			if err := log.add(ctx, res.Window(), res.Columns(), rows); err != nil {
				return err
			}
			release()
			res.Stored()
		}
	}
}

// stateOf returns the state of a query with this result.
func stateOf(res *fleet.Standing) wire.StandingState {
	st := wire.StandingState{State: wire.StandingRunning, Hosts: res.Coverage()}
	for _, l := range res.Summary().Losses {
		st.Late += l.N
	}
	return st
}

// latenessOf returns what the session had set that created a query.
func latenessOf(prelude []string) time.Duration {
	late := time.Duration(0)
	for _, s := range catalog.Settings {
		if s.Name == "lateness" {
			late = time.Duration(s.Default.I)
		}
	}
	for _, text := range prelude {
		if st, err := parser.Parse(text); err == nil {
			if set, ok := st.(*parser.Set); ok && strings.EqualFold(set.Key.Name, "lateness") && set.Value.Kind == parser.LitDuration {
				late = time.Duration(set.Value.Int)
			}
		}
	}
	return late
}

// expect adds the hosts of a standing query that have come since, and sends the query to
// those that have not answered: their author may not have known them.
func (p *published) expect(now time.Time) {
	if p.keeps == nil {
		return
	}
	var offers []string
	all := p.e.hosts.list()
	p.mu.Lock()
	for _, h := range all {
		if !p.keeps.chosen(h.Name, h.Labels) {
			continue
		}
		a := p.hosts[h.Name]
		if a == nil {
			a = newAnswers(h.Name)
			p.hosts[h.Name] = a
		}
		if !p.e.hosts.alive(h) {
			a.since = now // it may have kept something when it is heard again
		} else if a.last == nil && now.Sub(a.since) > offeredAfter && now.Sub(a.offered) > offeredEvery {
			a.offered, offers = now, append(offers, h.Name)
		}
	}
	p.mu.Unlock()
	for _, host := range offers {
		p.offer(host)
	}
}

// How long after a host is known a standing query is sent to it alone, and how often.
const (
	offeredAfter = 2 * time.Second
	offeredEvery = 5 * time.Second
)

// offer sends a standing query to one host.
func (p *published) offer(host string) {
	value, err := p.e.trust.Offer(p.query.ID, p.keeps.value, []string{host})
	if err != nil {
		return
	}
	m, err := p.e.trust.Seal(bus.About{Kind: bus.KindControl, Host: host}, bus.Encode(bus.Control{Offer: &bus.Offer{Query: p.query.ID, Value: value}}))
	if err == nil {
		_ = p.e.nc.Publish(bus.HostSubject(host), m)
	}
}
