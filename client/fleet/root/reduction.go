package root

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"endoscope/client/fleet"
	"endoscope/operators/batch"
	"endoscope/parser"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// reduction merges the results of one shard's hosts of one query. Its reducer owns the shard,
// and sends what it has merged to the root as a host sends its own; or it follows silently, so
// that it can go on when the owner does not. Which results hosts may drop depends on the root:
// they keep what the root does not have.
type reduction struct {
	query   bus.Query
	shard   int
	name    string               // of the reducer, as the bus names it
	send    func(message []byte) // to the root
	p       *published
	orders  chan order
	ended   chan struct{}  // closed when run has ended
	lost    atomic.Bool    // it has results of hosts that were restarted since, which do not send them again
	owner   chan struct{}  // closed when it has owned the shard
	numbers map[string]int // of the hosts of the shard

	// The fields below belong to run's goroutine.
	epoch   uint64 // 0: it follows silently
	begun   bool   // owner is closed
	out     *bus.Outbox
	made    []*made
	res     *fleet.Reduced // nil: no host has answered yet
	pending []*batch.Batch
	mark    int64
	summed  bool // a total since the last beat has a summary
}

// partial is what a published query needs to know of the shard that is merged here.
type partial struct {
	hosts []string
	owned atomic.Bool // results are acknowledged
}

// order is what a reduction is told: a new epoch, or what the root has and misses.
type order struct {
	epoch         uint64
	follow        bool   // silently: another reducer owns the shard
	incarnation   string // of what the root has and misses
	next, missing uint64
}

// made is an item for the root.
type made struct {
	header bus.Header
	how    bus.Delivery
	rows   []*batch.Batch
	merged *fleet.Merged // nil: no result of hosts is in it
	stored bool          // the root has it
	seq    uint64        // in the outbox; 0: it is not there
	at     time.Time
}

// window reports whether it is one of several windows.
func (m *made) window() bool {
	return m.merged != nil && !m.merged.Total && m.merged.End < math.MaxInt64
}

// newReduction returns what merges what the hosts of a shard send. Its p must begin to receive
// that, and run must be called.
func newReduction(e *Engine, q bus.Query, shard int, hosts []string, name string, send func([]byte)) *reduction {
	r := &reduction{query: q, shard: shard, name: name, send: send, orders: make(chan order, 64), ended: make(chan struct{}), owner: make(chan struct{}), numbers: map[string]int{}}
	p := &published{e: e, query: q, part: &partial{hosts: hosts}, hosts: map[string]*answers{}, quit: make(chan struct{}), led: make(chan struct{}), joined: make(chan fleet.Joined)}
	for i, h := range hosts {
		p.hosts[h], r.numbers[h] = newAnswers(h), i
	}
	r.p = p
	return r
}

// instruct delivers an order. Those about what the root has are repeated.
func (r *reduction) instruct(o order) {
	select {
	case r.orders <- o:
	case <-r.ended:
	}
}

// merging is an event of the merged result.
type merging struct {
	res    *fleet.Reduced // first
	ev     wire.Event
	merged *fleet.Merged // of a Flush
	err    error         // last
}

// read reads the merged result to its end.
func (r *reduction) read(ctx context.Context, to chan<- merging) {
	defer close(to)
	say := func(m merging) bool {
		select {
		case to <- m:
			return true
		case <-ctx.Done():
			if m.ev.Batch != nil {
				m.ev.Batch.Release()
			}
			return false
		}
	}
	res, err := fleet.Reduce(ctx, r.p)
	if err != nil {
		say(merging{err: err})
		return
	}
	defer res.Close()
	for m := (merging{res: res}); say(m) && m.err == nil; {
		m = merging{}
		if res.Totals() { // a follower needs only the newest of each host, which is kept as it arrives
			select {
			case <-r.owner:
			case <-ctx.Done():
				return
			}
		}
		if m.ev, m.err = res.Next(ctx); m.err == nil && m.ev.Kind == wire.Flush {
			m.merged = res.Merged()
		}
	}
	<-ctx.Done() // until then the results of hosts are acknowledged
}

// run merges until ctx is done.
func (r *reduction) run(ctx context.Context) {
	defer close(r.ended)
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan merging, 64)
	go r.p.lead()
	go r.read(ctx, events)
	defer func() {
		cancel()
		for m := range events {
			if m.ev.Batch != nil {
				m.ev.Batch.Release()
			}
		}
		r.p.Close()
		for _, m := range r.made {
			release(m.rows)
		}
		release(r.pending)
	}()
	beat := time.NewTicker(bus.LeaseEvery)
	defer beat.Stop()
	for from := events; ; {
		select {
		case m, ok := <-from:
			if !ok {
				from = nil // drained
				continue
			}
			r.receive(m)
		case o := <-r.orders:
			r.obey(o)
		case <-beat.C:
			r.beat()
		case <-ctx.Done():
			return
		}
	}
}

func release(bs []*batch.Batch) {
	for _, b := range bs {
		b.Release()
	}
}

// receive makes an item of what was merged.
func (r *reduction) receive(m merging) {
	r.mark = max(r.mark, m.ev.Mark)
	switch {
	case m.res != nil:
		r.res = m.res
		r.keep(&made{header: bus.Header{Kind: bus.ItemBegin, Columns: m.res.Columns()}})
	case m.err != nil && r.res == nil:
		h := bus.Header{Kind: bus.ItemRefused, Refusal: refusalOf(m.err), Summary: &wire.Summary{}}
		var none *fleet.Unmerged
		if errors.As(m.err, &none) {
			h.Summary.Hosts = none.Hosts
		}
		r.keep(&made{header: h})
	case m.err != nil:
		sum := r.res.Summary()
		h := bus.Header{Kind: bus.ItemEnd, Summary: &sum}
		if m.err != io.EOF {
			h.Refusal = refusalOf(m.err)
		}
		r.keep(&made{header: h})
	case m.ev.Kind == wire.Notice:
		r.keep(&made{header: bus.Header{Kind: bus.ItemNotice, Text: m.ev.Text}, how: bus.Loose})
	case m.ev.Kind == wire.Rows:
		r.pending = append(r.pending, m.ev.Batch)
	case m.ev.Kind == wire.Flush:
		h := bus.Header{Kind: bus.ItemRows, Flush: true, Round: m.ev.Round, Shard: &bus.Shard{Once: !m.merged.Total, End: m.merged.End}}
		x := &made{header: h, rows: r.pending, merged: m.merged}
		r.pending = nil
		if m.merged.Total { // with the states of the hosts at this time
			sum := r.res.Summary()
			x.how, x.header.Summary, r.summed = bus.Total, &sum, true
			r.lost.Store(slices.ContainsFunc(sum.Hosts, func(h wire.HostState) bool { return h.Gaps != nil }))
		}
		for _, c := range m.merged.Covers {
			h.Shard.Covers = h.Shard.Covers.Add(r.numbers[c.Host], c.Run, c.Round)
		}
		r.keep(x)
	}
}

// keep keeps an item, and sends it if the shard is owned here.
func (r *reduction) keep(m *made) {
	m.at, m.header.Mark = time.Now(), r.mark
	if m.how == bus.Total {
		r.drop(func(x *made) bool { return x.how == bus.Total })
	}
	if r.epoch == 0 { // the root has had time for the older ones
		r.drop(func(x *made) bool {
			return x.how == bus.Loose || x.window() && m.at.Sub(x.at) > bus.LeaseLength
		})
	}
	r.made = append(r.made, m)
	r.add(m)
}

// drop drops items. Hosts need not keep what is in them where the root has them.
func (r *reduction) drop(which func(*made) bool) {
	r.made = slices.DeleteFunc(r.made, func(m *made) bool {
		if !which(m) {
			return false
		}
		if m.merged != nil && r.epoch == 0 {
			r.res.Stored(m.merged)
		}
		release(m.rows)
		return true
	})
}

// add sends an item.
func (r *reduction) add(m *made) {
	if r.epoch == 0 {
		return
	}
	h := m.header
	of := bus.Shard{}
	if h.Shard != nil {
		of = *h.Shard
	}
	of.Number, of.Epoch = r.shard, r.epoch
	h.Shard = &of
	if h.Kind == bus.ItemBegin {
		h.Share = r.res.Info().Share
	}
	var parts [][]byte
	var rows uint64
	if h.Kind == bus.ItemRows {
		var keys []int
		for i := range r.res.Keys() {
			keys = append(keys, 1+i)
		}
		for _, b := range m.rows {
			rows += uint64(b.Len())
		}
		var err error
		if parts, err = bus.EncodeRows(r.res.Columns(), keys, m.rows); err != nil {
			h = bus.Header{Kind: bus.ItemEnd, Refusal: refusalOf(err), Shard: &of}
		}
	}
	ms, err := r.out.Add(h, m.how, parts, rows)
	if err != nil {
		return // not reached: headers can be encoded
	}
	m.seq = r.out.Last()
	r.sendAll(ms)
}

func (r *reduction) sendAll(messages [][]byte) {
	for _, m := range messages {
		r.send(m)
	}
}

// obey follows an order.
func (r *reduction) obey(o order) {
	switch {
	case o.follow:
		r.epoch, r.out = 0, nil
		r.p.part.owned.Store(false)
	case o.epoch > 0 && o.epoch != r.epoch:
		r.epoch, r.out = o.epoch, bus.NewOutbox(r.query.ID, r.name, epochName(o.epoch))
		r.out.Restarts = true
		if r.p.part.owned.Store(true); !r.begun {
			r.begun = true
			close(r.owner)
		}
		for _, m := range r.made {
			r.add(m)
		}
		r.beat()
	case o.epoch > 0, r.out == nil, o.incarnation != epochName(r.epoch):
	default:
		r.out.Acknowledge(o.next)
		for _, m := range r.made {
			if m.merged != nil && m.seq < o.next && !m.stored {
				m.stored = true
				r.res.Stored(m.merged)
			}
		}
		r.drop(func(m *made) bool {
			return m.seq < o.next && (m.window() || m.how == bus.Loose)
		})
		if o.missing > 0 {
			if ms, err := r.out.Since(o.missing, resent); err == nil {
				r.sendAll(ms)
			}
		}
	}
}

// resent limits the bytes that are sent again at a time.
const resent = 4 << 20

// beat says that the shard is owned here, and how far its result is.
func (r *reduction) beat() {
	if r.out == nil {
		return
	}
	h := bus.Header{Mark: r.mark, Shard: &bus.Shard{Number: r.shard, Epoch: r.epoch}}
	if r.res != nil && !r.summed {
		sum := r.res.Summary()
		h.Summary = &sum
	}
	r.summed = false
	if m, err := r.out.Beat(h); err == nil {
		r.send(m)
	}
}

// refusalOf returns an error as the root shows it.
func refusalOf(err error) *bus.Refusal {
	var mistake *parser.Error
	if errors.As(err, &mistake) {
		return &bus.Refusal{Msg: mistake.Msg, Hint: mistake.Hint, Src: mistake.Src, Start: mistake.Pos.Start, Stop: mistake.Pos.Stop, Syntax: mistake.Syntax}
	}
	return &bus.Refusal{Msg: err.Error(), Start: -1}
}
