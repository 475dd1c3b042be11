package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/server/wire"
)

// rounds is an aggregate over all hosts with repeated results: one for each
// window, when no awaited host has more rows of it, or, with EMIT EVERY, one each
// time that every host has sent its totals. Windows of different hosts are the
// same if their borders are equal, each by its host's clock.
//
// A window is returned without the hosts that are too far behind when too many
// rows are queued after it. Hosts may be behind only because of their clocks;
// Summary reports how far these differ.
//
// The totals of a host that has ended stay its last ones. The same holds for a
// lost or silent host, about which the user was notified.
type rounds struct {
	aligned
	by     plan.Again
	open   []*window // by their ends, then by their beginnings
	held   int       // their rows, or the rows of queued totals
	round  uint64    // number of the totals that were returned last
	behind bool      // a host has sent older totals since
	// ready is how many hosts have sent totals that were not returned, and awaited how many
	// there are: all hosts are looked at when these are equal, and from time to time.
	ready, awaited int
	skipped        atomic.Uint64 // totals that were not returned, since newer ones had arrived
	closed         int64         // windows that end here or before are closed
	// slowest is the host that windows wait for: no window can be closed before it makes
	// progress, so that the others need not be looked at.
	slowest *part
	merged  []*Merged // of the results that were not returned yet, of a Reduced
	marked  int64     // the last watermark of these
}

// window is one of which hosts have sent rows.
type window struct {
	start, end int64
	rows       []*batch.Batch
}

func (r *rounds) Columns() []wire.Column { return r.upper.cols }
func (r *rounds) Message() string        { return "" }

func (r *rounds) Next(ctx context.Context) (wire.Event, error) { return r.advance(ctx, r) }

func (r *rounds) accept(_ context.Context, x hostEvent) error {
	p := x.part
	r.due = r.due || x.over || x.joins || p == r.slowest
	switch {
	case r.by == plan.PerWindow:
		end := int64(math.MinInt64)
		for _, b := range r.complete(x) {
			end = max(end, r.divide(b))
		}
		if x.ev.Kind == wire.Flush && r.s.reduces {
			r.delivered(p, x.ev.Round, end)
		}
	case x.over:
		p.take(true)
	case x.ev.Kind == wire.Flush:
		r.held += p.queued
		if p.round == 0 || p.epoch != x.ev.Epoch {
			r.begin(p, x.ev)
		}
		n := p.round + 1
		if x.ev.Round > 0 { // some may be missing
			n = max(n, x.ev.Round)
		}
		if p.round = n; len(p.rounds) == 0 {
			r.ready++
		}
		r.due = r.due || r.ready >= r.awaited || len(p.rounds) >= mostRounds || r.held > mostPending
		p.rounds = append(p.rounds, round{p.base + n, x.ev.Round, p.take(false)})
	case x.ev.Batch != nil:
		p.queue = append(p.queue, x.ev.Batch)
		if p.queued += x.ev.Batch.Len(); p.queued > mostPending {
			r.exclude(p, "it sends more than %d rows at once", mostPending)
		}
	}
	return nil
}

// begin numbers the totals of a host that has begun later than others, or of a reducer whose numbers
// are far from those of others: its next totals are those of the next result.
func (r *rounds) begin(p *part, ev wire.Event) {
	at, first := max(ev.Round, 1), p.round == 0
	p.epoch, p.round = ev.Epoch, at-1
	ahead := int64(p.base + at - r.round)
	var far bool
	switch {
	case !first: // the result did not wait for it, or has totals of the reducer before
		far = ahead <= 0 || ahead > mostBehind || ahead > 1 && len(p.rounds) == 0
	case p.member.shard != nil: // it counts as its hosts do, and catches up
		far = ahead < -mostRounds || ahead > mostRounds
	default:
		far = ahead <= 0 || ahead > mostRounds
	}
	if r.round > 0 && far {
		p.base = r.round + 1 - at
	}
	for n := len(p.rounds); n > 0 && p.rounds[n-1].n >= p.base+at; n = len(p.rounds) { // of another reducer
		for _, b := range p.rounds[n-1].rows {
			r.held -= b.Len()
		}
		release(p.rounds[n-1].rows)
		p.rounds = p.rounds[:n-1]
	}
}

// divide adds rows to their windows, and returns the last end of these. Those of closed windows
// are late.
func (r *rounds) divide(b *batch.Batch) (last int64) {
	defer b.Release()
	last = math.MinInt64
	starts, ends := b.Cols[r.upper.Exchange.Start].Int, b.Cols[r.upper.Exchange.End].Int
	for from := 0; from < b.Len(); {
		start, end := starts[b.Row(from)], ends[b.Row(from)]
		var of []uint16
		for from < b.Len() && starts[b.Row(from)] == start && ends[b.Row(from)] == end {
			of = append(of, uint16(b.Row(from)))
			from++
		}
		last = max(last, end)
		if end <= r.closed {
			r.late.Add(uint64(len(of)))
			continue
		}
		at, found := slices.BinarySearchFunc(r.open, window{start: start, end: end}, func(w *window, of window) int {
			return cmp.Or(cmp.Compare(w.end, of.end), cmp.Compare(w.start, of.start))
		})
		if !found {
			r.open = slices.Insert(r.open, at, &window{start: start, end: end})
		}
		r.open[at].rows = append(r.open[at].rows, b.View(of))
		r.held += len(of)
	}
	return last
}

// settle returns the results that no host can still add to.
func (r *rounds) settle(ctx context.Context) error {
	if r.by != plan.PerWindow {
		return r.settleRounds(ctx)
	}
	if !r.due && r.slowest != nil && r.held <= mostPending {
		return nil
	}
	r.due, r.slowest = false, nil
	until, waiting, all := int64(math.MaxInt64), 0, 0
	for _, p := range r.parts {
		if p.over {
			continue
		}
		if all++; r.waitsFor(p) {
			if waiting++; p.mark <= until {
				until, r.slowest = p.mark, p
			}
		}
	}
	switch {
	case all > 0 && waiting == 0: // all remaining hosts are silent: their progress is unknown
		until = math.MinInt64
	case !r.over && r.awaits():
		until, r.slowest = math.MinInt64, nil
	}
	for len(r.open) > 0 {
		w := r.open[0]
		if w.end > until {
			if r.held <= mostPending {
				break
			}
			r.rushed.Add(1)
		}
		r.open = slices.Delete(r.open, 0, 1)
		for _, b := range w.rows {
			r.held -= b.Len()
		}
		r.closed = max(r.closed, w.end)
		if err := r.result(ctx, w.rows, w.end); err != nil {
			return err
		}
	}
	r.closed = max(r.closed, until)
	if r.s.reduces && r.closed > r.marked && r.closed < math.MaxInt64 {
		r.marked = r.closed
		r.out = append(r.out, wire.Event{Kind: wire.Mark, Mark: r.closed})
	}
	return nil
}

// mostRounds is how many totals of a host may wait for those of others.
const mostRounds = 16

// mostBehind is how many totals that all hosts have sent may wait for this machine. If there
// are more, only the newest are returned.
const mostBehind = 3

// settleRounds returns totals when each host has sent its own of that number. When too
// many totals of one host are queued for another host, they are returned without it:
// otherwise all totals would be late for the rest of the query. The last totals of a host
// that was not waited for are in the next result.
func (r *rounds) settleRounds(ctx context.Context) error {
	if !r.due || r.by == plan.Once && !r.over {
		return nil
	}
	r.due = false
	r.align()
	crowded := r.held > mostPending || slices.ContainsFunc(r.parts, func(p *part) bool { return len(p.rounds) > mostRounds })
	for {
		next, newest, waits, lacking := uint64(math.MaxUint64), uint64(math.MaxUint64), false, false
		r.ready, r.awaited = 0, 0
		for _, p := range r.parts {
			r.behind = r.update(p) || r.behind
			switch {
			case len(p.rounds) > 0:
				r.ready++
				r.awaited++
				next, newest = min(next, p.rounds[0].n), min(newest, p.rounds[len(p.rounds)-1].n)
			case !r.over && r.waitsFor(p): // it may be found silent here
				if lacking = true; !crowded {
					waits = true
					r.awaited++
				}
			}
		}
		if next < math.MaxUint64 && !lacking && newest-next > mostBehind {
			next = newest
		}
		switch {
		case next < math.MaxUint64 && !waits:
			if !lacking && r.round > 0 {
				r.skipped.Add(next - r.round - 1)
			}
			r.round = next
		case r.over && r.behind:
		default:
			return nil
		}
		var all []*batch.Batch
		for _, p := range r.parts {
			if r.update(p); r.early(p) {
				r.update(p)
			}
			for _, b := range p.last {
				all = append(all, b.Retain())
			}
		}
		r.behind = false
		if err := r.result(ctx, all, 0); err != nil {
			return err
		}
	}
}

// early makes the newest totals of a host those of the result that is returned, if it has had newer
// ones than these for many results: its numbers are too high, since others have begun again
// meanwhile with the next number. Else it would be behind by as much from then on.
func (r *rounds) early(p *part) bool {
	if p.early++; len(p.rounds) <= mostBehind {
		p.early = 0
	}
	if p.early <= mostRounds {
		return false
	}
	p.base -= p.rounds[len(p.rounds)-1].n - r.round
	for i := range p.rounds {
		p.rounds[i].n = r.round
	}
	return true
}

// align makes the newest totals of all hosts those of one round, when a reducer begins to receive
// them later than hosts to send, some of which may have been restarted.
func (r *rounds) align() {
	if !r.s.reduces || r.round > 0 {
		return
	}
	newest := func(p *part) uint64 { return p.rounds[len(p.rounds)-1].n }
	last := uint64(0)
	for _, p := range r.parts {
		if len(p.rounds) > 0 {
			last = max(last, newest(p))
		}
	}
	for _, p := range r.parts {
		if len(p.rounds) == 0 || last-newest(p) <= mostBehind {
			continue
		}
		by := last - newest(p)
		p.base += by
		for i := range p.rounds {
			p.rounds[i].n += by
		}
	}
}

// update makes the newest totals of a host up to the current round its last ones. It
// reports whether there were newer ones.
func (r *rounds) update(p *part) (newer bool) {
	for len(p.rounds) > 0 && p.rounds[0].n <= r.round {
		release(p.last)
		p.last, p.latest, p.has, p.rounds, newer = p.rounds[0].rows, p.rounds[0].sent, true, p.rounds[1:], true
		for _, b := range p.last {
			r.held -= b.Len()
		}
	}
	return newer
}

// result merges the hosts' rows of one result, and releases them. end is that of its window.
func (r *rounds) result(ctx context.Context, of []*batch.Batch, end int64) error {
	flush := wire.Event{Kind: wire.Flush}
	if r.s.reduces {
		r.marked = max(r.marked, end)
		flush.Round, flush.Mark = r.round, end
		r.merged = append(r.merged, r.mergedOf(end))
	}
	events, n, err := r.upper.result(ctx, r.armed(), of)
	if err != nil {
		return err
	}
	r.returned.Add(n)
	r.out = append(append(r.out, events...), flush)
	return nil
}

func (r *rounds) Close() error {
	for _, w := range r.open {
		release(w.rows)
	}
	r.open = nil
	return r.aligned.Close()
}

// lateCause is the cause of groups that arrived after the result of their window
// was returned: from a host that was not waited for, or is far behind.
const lateCause = "late groups of hosts"

// addLate adds the groups that windows did not wait for.
func addLate(sum *wire.Summary, late, rushed uint64) {
	if late > 0 {
		sum.Losses = add(sum.Losses, []wire.Loss{{Cause: lateCause, N: late}})
	}
	if rushed > 0 {
		sum.Notes = append(sum.Notes, fmt.Sprintf("windows that did not wait for hosts that were too far behind: %d", rushed))
	}
}

// Summary returns the number of result rows, the other counters of the hosts, and
// how exactly their windows coincide.
func (r *rounds) Summary() wire.Summary {
	sum := r.gathered.Summary()
	sum.Rows = r.returned.Load()
	addLate(&sum, r.late.Load(), r.rushed.Load())
	if n := r.skipped.Load(); n > 0 {
		who := "this machine"
		if r.s.reduces {
			who = "a reducer"
		}
		sum.Notes = append(sum.Notes, fmt.Sprintf("answers that were left out, since %s did not keep up with the hosts: %d", who, n))
	}
	if r.by != plan.PerWindow || len(r.parts) < 2 || r.s.reduces {
		return sum
	}
	if within, ok := r.s.clocks.within(); ok {
		sum.Notes = append(sum.Notes, fmt.Sprintf("windows are by the clock of each host: these are %v apart, ±%s", r.s.clocks.apart(), roundedUp(within)))
	} else {
		sum.Notes = append(sum.Notes, "windows are by the clock of each host, and the difference of the clocks is unknown")
	}
	return sum
}
