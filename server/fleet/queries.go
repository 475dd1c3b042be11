package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"endoscope/server/wire/bus"
)

// receive handles a message of the bus.
func (a *Agent) receive(ctx context.Context, m *nats.Msg) {
	switch {
	case strings.HasPrefix(m.Subject, strings.TrimSuffix(bus.AllLeases, "*")):
		a.lease(ctx, m)
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
	if c.Value == nil {
		delete(a.waiting, c.Query)
		if r := a.runs[c.Query]; r != nil && !c.Expired {
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
	if err := bus.Decode(text, &q.Query); err != nil || q.ID != c.Query || q.Version != bus.Version {
		a.o.Log.Warn("a query is refused: it cannot be read, or is of another version", "query", c.Query)
		return
	}
	if !q.Selects(a.o.Host.Name) {
		return
	}
	if a.waiting[q.ID] = q; live {
		a.begin(ctx, q.ID, nil)
	}
}

// begin starts a query that waits for that, if it may run now.
func (a *Agent) begin(ctx context.Context, id string, echo *bus.Echo) {
	q := a.waiting[id]
	if err := a.o.Trust.Live(id); err != nil {
		return // a message of the past was repeated; a lease may follow
	}
	delete(a.waiting, id)
	r := &run{a: a, query: q, told: make(chan instruction, 64), echo: echo}
	r.leased.Store(time.Now().UnixNano())
	a.runs[id] = r
	a.count()
	go func() {
		r.execute(ctx)
		a.ended <- r
	}()
}

// lease handles a lease: the query runs on, or ends.
func (a *Agent) lease(ctx context.Context, m *nats.Msg) {
	id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	text, _, err := a.o.Trust.Open(bus.About{Kind: bus.KindLease, Query: id}, m.Data)
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
	switch {
	case r != nil:
		r.leased.Store(now.UnixNano())
		r.tell(instruction{echo: echo, ending: l.Ending, over: l.Over})
	case a.waiting[id] != nil && !l.Ending && !l.Over:
		a.begin(ctx, id, echo)
	}
}

// expire ends the queries whose leases have stopped, or that may not run any more.
func (a *Agent) expire() {
	for id, r := range a.runs {
		if time.Since(time.Unix(0, r.leased.Load())) > bus.LeaseLength || a.o.Trust.Live(id) != nil {
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
	if r := a.runs[c.Query]; r != nil && c.Incarnation == a.incarnation {
		r.tell(instruction{next: c.Next, missing: c.Missing})
	}
}
