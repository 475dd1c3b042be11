package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/server/wire/bus"
)

// receive handles a message of the bus.
func (a *Agent) receive(ctx context.Context, m *nats.Msg) {
	switch {
	case strings.HasPrefix(m.Subject, strings.TrimSuffix(bus.AllLeases, "*")):
		a.lease(ctx, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], m.Data)
	case m.Subject == bus.HostSubject(a.o.Host.Name):
		a.control(ctx, m)
	default:
		c, ok := bus.Changed(m)
		if !ok {
			return
		}
		if c.Seq == a.seen+1 {
			a.seen = c.Seq
		} else if c.Seq > a.seen {
			a.reread(ctx, 0) // changes in between were lost
		}
		a.change(ctx, c, true)
	}
}

// reread reads the whole bucket after a delay, unless that is under way.
func (a *Agent) reread(ctx context.Context, after time.Duration) {
	if a.reading {
		return
	}
	a.reading = true
	a.all.Go(func() {
		sleep(ctx, after)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		changes, err := bus.Queries(short, a.nc)
		switch {
		case err != nil:
			changes = nil
		case changes == nil:
			changes = []bus.Change{}
		}
		select {
		case a.read <- changes:
		case <-ctx.Done():
		}
	})
}

// change handles a change of the bucket. live: it has just been made, so its root is
// alive.
func (a *Agent) change(ctx context.Context, c bus.Change, live bool) {
	if c.Over {
		if c.Value != nil {
			a.lease(ctx, c.Query, c.Value)
		}
		return
	}
	if c.Value == nil {
		delete(a.waiting, c.Query)
		if r := a.runs[c.Query]; r != nil && !c.Expired && r.query.Standing == nil {
			r.tell(instruction{over: true})
		}
		return
	}
	if _, finished := a.finished[c.Query]; finished || a.runs[c.Query] != nil || a.waiting[c.Query] != nil {
		return
	}
	text, author, err := a.o.Trust.Open(bus.About{Kind: bus.KindQuery, Query: c.Query, Host: a.o.Host.Name}, c.Value)
	if err != nil {
		a.o.Log.Warn("a query is refused", "query", c.Query, "error", err)
		return
	}
	q := &query{author: author}
	if err := bus.Decode(text, &q.Query); err != nil || q.ID != c.Query || !q.Valid() {
		a.o.Log.Warn("a query is refused: it cannot be read, or is of another version", "query", c.Query)
		return
	}
	if !a.chosen(&q.Query) {
		return
	}
	if a.waiting[q.ID] = q; live {
		a.begin(ctx, q.ID, nil, nil)
	}
}

// chosen reports whether this host executes a query.
func (a *Agent) chosen(q *bus.Query) bool {
	if q.Standing == nil {
		return q.Selects(a.o.Host.Name)
	}
	if _, reducer := bus.Reducer(a.o.Host.Name); reducer {
		return false
	}
	st, err := parser.Parse(q.Text)
	of, ok := st.(*parser.Query)
	if err != nil || !ok {
		return true // the root is told why it is refused
	}
	a.mu.Lock()
	labels := a.o.Host.Labels
	a.mu.Unlock()
	return planner.ChooseHosts(of, q.Text, expr.EvalConst)(a.o.Host.Name, labels)
}

// begin starts a query that waits for that, if it may run now. A standing query waits for a
// lease of its renewer, which is otherwise not there to receive its result.
func (a *Agent) begin(ctx context.Context, id string, l *bus.Lease, echo *bus.Echo) {
	q := a.waiting[id]
	if err := a.o.Trust.Live(id); err != nil || time.Now().Before(q.after) || q.Standing != nil && l == nil {
		return // a message of the past was repeated; a lease may follow
	}
	delete(a.waiting, id)
	r := &run{a: a, query: q, incarnation: newIncarnation(), told: make(chan instruction, 64), echo: echo}
	r.lease(l)
	a.runs[id] = r
	a.count()
	go func() {
		r.execute(ctx)
		a.ended <- r
	}()
}

// lease handles a lease: the query runs on, or ends.
func (a *Agent) lease(ctx context.Context, id string, message []byte) {
	text, _, err := a.o.Trust.Open(bus.About{Kind: bus.KindLease, Query: id}, message)
	var l bus.Lease
	if err != nil || bus.Decode(text, &l) != nil || l.Query != id {
		return
	}
	if l.Head > a.seen {
		a.reread(ctx, a.spread(200*time.Millisecond))
	}
	echo := &bus.Echo{Sent: l.Time, Received: time.Now().UnixNano()}
	r, now := a.runs[id], time.Now()
	if _, finished := a.finished[id]; finished {
		a.finished[id] = now
	}
	if l.Over {
		delete(a.waiting, id)
	}
	switch {
	case r != nil:
		r.lease(&l)
		r.tell(instruction{echo: echo, ending: l.Ending, over: l.Over})
	case a.waiting[id] != nil && !l.Ending:
		a.begin(ctx, id, &l, echo)
	}
}

// refusedFor is how long a host that has refused or failed to execute a standing query waits
// before it tries again.
const refusedFor = 30 * time.Second

// over handles the end of a run. A standing query begins again with a lease, unless it was
// dropped or has ended by itself.
func (a *Agent) over(r *run) {
	delete(a.runs, r.query.ID)
	a.count()
	if r.query.Standing == nil || !r.lapsed && !r.failed || r.dropped {
		a.finished[r.query.ID] = time.Now()
		return
	}
	if r.failed {
		r.query.after = time.Now().Add(refusedFor + a.spread(refusedFor/4))
	}
	a.waiting[r.query.ID] = r.query
}

// expire ends the queries whose leases have stopped, or that may not run any more.
func (a *Agent) expire() {
	for id, r := range a.runs {
		if r.lapsed || time.Now().After(r.until) || a.o.Trust.Live(id) != nil {
			r.lapsed = true
			r.tell(instruction{over: true})
		}
	}
	for id, leased := range a.finished {
		if time.Since(leased) > bus.LeaseLength {
			delete(a.finished, id)
		}
	}
}

// control handles a message to this host.
func (a *Agent) control(ctx context.Context, m *nats.Msg) {
	text, author, err := a.o.Trust.Open(bus.About{Kind: bus.KindControl, Host: a.o.Host.Name}, m.Data)
	var c bus.Control
	if err != nil || bus.Decode(text, &c) != nil {
		return
	}
	if c.Ask != nil && m.Reply != "" {
		a.all.Go(func() { a.answer(ctx, author, c.Ask, m.Reply) })
		return
	}
	if c.Offer != nil {
		a.change(ctx, bus.Change{Query: c.Offer.Query, Value: c.Offer.Value}, false)
		return
	}
	if r := a.runs[c.Query]; r != nil && c.Incarnation == r.incarnation {
		r.tell(instruction{next: c.Next, missing: c.Missing})
	}
}
