package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/client/fleet"
	"endoscope/operators/batch"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// hostResult is what one start of a host's agent sends of a statement. It implements
// wire.Result.
type hostResult struct {
	p           *published
	host        string
	incarnation string
	shard       *shard // of reducers; nil: of a host
	joins       bool   // it is passed to the reader as fleet.Joined
	again       bool   // the agent was started again since the statement was published

	// The fields up to began are guarded by p.mu.
	stream  *bus.Stream
	heard   time.Time
	counted time.Time // when the last rows arrived
	first   *bus.Item // ItemBegin or ItemRefused
	began   time.Time // when the host had armed the query, by this machine's clock

	read    atomic.Bool  // the reader has it
	arrived atomic.Int64 // when rows or a watermark arrived, ns since 1970

	mu       sync.Mutex
	queue    []*bus.Item
	preview  *bus.Item // the newest total of a result that is not complete
	wake     chan struct{}
	answered chan struct{} // closed when first is known
	taken    uint64        // the last item that the reader has taken
	rounds   []round       // where the host keeps them (published.holds): results that were taken and are not stored
	stored   uint64        // the last item whose results are stored
	summary  wire.Summary
	dropped  uint64
	err      error        // why there is nothing more; nil: there is
	last     bool         // the end is in the queue, or err is set
	events   []wire.Event // of the item being read
	closed   bool
}

// mostTotals is how many totals of a host may wait for the reader. If there are more, the
// reader does not keep up, and gets only the newest.
const mostTotals = 4

func newHostResult(p *published, host, incarnation string) *hostResult {
	return &hostResult{p: p, host: host, incarnation: incarnation, stream: bus.NewStream(), heard: time.Now(), wake: make(chan struct{}, 1), answered: make(chan struct{})}
}

// add receives a message. The caller holds p.mu.
func (r *hostResult) add(h *bus.Header, rows []byte, now time.Time) {
	r.heard = now
	// Before its next total a reducer may wait for a host. Other results may take any time.
	waits := h.Shard != nil && (r.shard.covers == nil || now.Sub(r.counted) < silentFor)
	if h.Kind == bus.ItemRows || h.Mark > 0 || waits {
		r.arrived.Store(now.UnixNano())
	}
	r.deliver(h, r.stream.Add(h, rows, now), now)
}

// deliver passes items to the reader. h is the header of the message that has made them
// deliverable. The caller holds p.mu.
func (r *hostResult) deliver(h *bus.Header, items []*bus.Item, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Summary != nil && h.Kind != bus.ItemRows {
		r.sum(h.Summary)
	}
	r.dropped = r.stream.Dropped
	if r.last {
		return
	}
	for _, it := range items {
		switch {
		case r.shard != nil && !r.shard.counts(it, r.began, now):
			continue
		case it.Kind == bus.ItemBegin || it.Kind == bus.ItemRefused:
			r.first, r.began = it, now
			if it.Share != nil {
				r.began = now.Add(-time.Duration(it.Share.Running))
			}
			r.taken = it.Seq
			close(r.answered)
			if it.Kind == bus.ItemRefused {
				r.last, r.err = true, errorOf(it.Refusal)
				if r.shard != nil {
					r.err = &fleet.Unmerged{Hosts: r.summary.Hosts, Err: r.err}
				}
			} else {
				r.p.accepted(r)
			}
			continue
		case it.Preview:
			r.preview, r.counted = it, now
			continue
		case it.Kind == bus.ItemRows:
			if r.preview, r.counted = nil, now; it.Summary != nil {
				r.sum(it.Summary)
			}
		case it.Kind == bus.ItemEnd:
			r.last = true
		}
		if it.Total && (len(r.queue) > mostTotals || r.p.follows()) { // the reader is behind, and needs only the newest
			r.queue = slices.DeleteFunc(r.queue, func(x *bus.Item) bool { return x.Total })
		}
		r.queue = append(r.queue, it)
	}
	if h.Kind == bus.ItemBeat && h.Mark > 0 && len(r.queue) == 0 && r.stream.Whole() { // nothing else says how far the host is
		r.queue = append(r.queue, &bus.Item{Header: h})
	}
	r.signal()
}

// sum takes a summary. Of a shard the gaps that were known before remain: another reducer may not
// know them. The caller holds r.mu.
func (r *hostResult) sum(s *wire.Summary) {
	hosts := r.summary.Hosts
	if r.summary = *s; r.shard != nil {
		r.summary.Hosts = fleet.WithGaps(fleet.WithGaps(s.Hosts, hosts), r.shard.gaps)
	}
}

// round is a result of a host, and the item that has it.
type round struct{ number, seq uint64 }

// Stored lets the host drop its results up to one of this number.
func (r *hostResult) Stored(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.rounds) > 0 && r.rounds[0].number <= number {
		r.stored, r.rounds = r.rounds[0].seq, r.rounds[1:]
	}
}

// follows reports whether another reducer owns the shard.
func (p *published) follows() bool { return p.part != nil && !p.part.owned.Load() }

// holds reports whether hosts keep results until they are stored, or until the root has them.
func (p *published) holds() bool { return p.query.Standing != nil || p.part != nil }

func (r *hostResult) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// answer returns what the host must be told now. The caller holds p.mu.
func (r *hostResult) answer(now time.Time) (c bus.Control, ok bool) {
	r.mu.Lock()
	consumed := r.taken + 1
	switch {
	case r.p.follows():
		consumed = 0 // the owner of the shard acknowledges
	case r.p.holds() && r.first != nil && r.first.Kind == bus.ItemBegin && !(r.err != nil && len(r.rounds) == 0):
		consumed = r.stored + 1
	case len(r.queue) == 0:
		consumed = ^uint64(0)
	}
	r.mu.Unlock()
	c, ok = r.stream.Answer(consumed, now)
	c.Query, c.Incarnation = r.p.query.ID, r.incarnation
	return c, ok
}

// ended reports whether nothing more comes. The caller holds p.mu.
func (r *hostResult) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// replaced ends the result of an agent that was started again. The caller holds p.mu.
func (r *hostResult) replaced(now time.Time) {
	from := r.counted
	if from.IsZero() {
		from = r.began
	}
	r.fail(&fleet.Gap{From: from, To: now})
}

// silent ends the result of a host that is silent while all others have ended. The caller
// holds p.mu.
func (r *hostResult) silent() { r.fail(&fleet.Silence{Since: r.heard}) }

// fail ends the result with an error. What a host has sent of a result that it did not
// complete counts.
func (r *hostResult) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last {
		return
	}
	if r.preview != nil {
		r.queue = append(r.queue, r.preview)
		r.preview = nil
	}
	r.last, r.err = true, err
	select {
	case <-r.answered:
	default:
		close(r.answered)
	}
	r.signal()
}

// Answer implements fleet.Published.
func (p *published) Answer(ctx context.Context, host string) (wire.Result, error) {
	p.mu.Lock()
	a := p.hosts[host]
	p.mu.Unlock()
	if since := p.lastHeard(a); p.e.hosts.silence(since, time.Now()) > silentFor {
		return nil, &fleet.Silence{Since: since} // it may still join
	}
	select {
	case <-a.begun:
		p.mu.Lock()
		r := a.last
		p.mu.Unlock()
		select {
		case <-r.answered:
			p.mu.Lock()
			defer p.mu.Unlock()
			if err := ctx.Err(); err != nil {
				return nil, err // it may still join
			}
			a.claimed = true
			if r.first == nil || r.first.Kind == bus.ItemRefused {
				return nil, r.err
			}
			return r, nil
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

// Columns implements wire.Result.
func (r *hostResult) Columns() []wire.Column { return r.first.Columns }

// Message implements wire.Result.
func (r *hostResult) Message() string { return r.first.Text }

// Info implements wire.Result.
func (r *hostResult) Info() wire.Info {
	if r.shard != nil { // its incarnation changes
		return wire.Info{Share: r.first.Share}
	}
	return wire.Info{Share: r.first.Share, Run: r.incarnation}
}

// Next implements wire.Result.
func (r *hostResult) Next(ctx context.Context) (wire.Event, error) {
	r.read.Store(true)
	for {
		r.mu.Lock()
		if len(r.events) > 0 {
			ev := r.events[0]
			r.events = r.events[1:]
			r.mu.Unlock()
			return ev, nil
		}
		var it *bus.Item
		var err error
		if len(r.queue) > 0 {
			it, r.queue = r.queue[0], r.queue[1:]
			r.taken = max(r.taken, it.Seq)
			if r.p.holds() && it.Flush {
				r.rounds = append(r.rounds, round{it.Round, it.Seq})
			}
		} else {
			err = r.err
		}
		r.mu.Unlock()
		switch {
		case err != nil:
			return wire.Event{}, err
		case it == nil:
			select {
			case <-r.wake:
			case <-ctx.Done():
				return wire.Event{}, ctx.Err()
			}
		case it.Kind == bus.ItemEnd:
			end := io.EOF
			if it.Refusal != nil {
				end = errorOf(it.Refusal)
			}
			r.mu.Lock()
			r.err = end
			r.mu.Unlock()
		default:
			events, err := r.decode(it)
			if err != nil {
				return wire.Event{}, err
			}
			r.mu.Lock()
			if r.events = events; r.closed {
				r.drop()
			}
			r.mu.Unlock()
		}
	}
}

// decode makes events of an item.
func (r *hostResult) decode(it *bus.Item) (events []wire.Event, err error) {
	switch it.Kind {
	case bus.ItemBeat:
		events = append(events, wire.Event{Kind: wire.Mark, Mark: it.Mark})
	case bus.ItemNotice:
		events = append(events, wire.Event{Kind: wire.Notice, Text: it.Text})
	case bus.ItemRows:
		var all []*batch.Batch
		for _, part := range it.Rows {
			bs, err := bus.DecodeRows(r.first.Columns, part)
			if err != nil {
				for _, b := range all {
					b.Release()
				}
				return nil, &broken{fmt.Errorf("what it sends cannot be read: %w", err)}
			}
			all = append(all, bs...)
		}
		for _, b := range all {
			events = append(events, wire.Event{Kind: wire.Rows, Batch: b})
		}
		if it.Flush {
			events = append(events, wire.Event{Kind: wire.Flush, Round: it.Round})
			if it.Shard != nil {
				events[len(events)-1].Epoch = it.Shard.Epoch
			}
		} else if len(all) == 0 {
			return nil, nil
		}
		events[len(events)-1].Mark = it.Mark
	}
	return events, nil
}

// drop releases the events that were not read. The caller holds r.mu.
func (r *hostResult) drop() {
	for _, ev := range r.events {
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	r.events = nil
}

// broken is the error of a host that sends what cannot be read: the others go on.
type broken struct{ error }

func (broken) Lost() bool { return true }

// Stop implements wire.Result. All hosts end together.
func (r *hostResult) Stop() { r.p.stop() }

// Close implements wire.Result. The statement ends at all hosts with published.Close.
func (r *hostResult) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.drop()
	r.queue, r.preview = nil, nil
	if !r.last {
		r.last, r.err = true, errClosed
	}
	return nil
}

var errClosed = errors.New("the result is closed")

// dropCause is the cause of rows that a host dropped because they were not read in time.
const dropCause = "not read in time"

// Summary implements wire.Result.
func (r *hostResult) Summary() wire.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.summary
	s.Arrived = time.Unix(0, r.arrived.Load())
	if r.dropped > 0 {
		s.Losses = append(s.Losses[:len(s.Losses):len(s.Losses)], wire.Loss{Cause: dropCause, N: r.dropped})
	}
	return s
}
