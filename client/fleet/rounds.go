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
	case r.by != plan.PerRound:
		for _, b := range r.complete(x) {
			r.divide(b)
		}
	case x.over:
		p.take(true)
	case x.ev.Kind == wire.Flush:
		r.held += p.queued
		if p.round == 0 { // it may have begun later than others
			p.base = r.round
		}
		n := p.round + 1
		if x.ev.Round > 0 { // some may be missing
			n = max(n, x.ev.Round)
		}
		if p.round = n; len(p.rounds) == 0 {
			r.ready++
		}
		r.due = r.due || r.ready >= r.awaited || len(p.rounds) >= mostRounds || r.held > mostPending
		p.rounds = append(p.rounds, round{p.base + n, p.take(false)})
	case x.ev.Batch != nil:
		p.queue = append(p.queue, x.ev.Batch)
		if p.queued += x.ev.Batch.Len(); p.queued > mostPending {
			r.exclude(p, "it sends more than %d rows at once", mostPending)
		}
	}
	return nil
}

// divide adds rows to their windows. Those of closed windows are late.
func (r *rounds) divide(b *batch.Batch) {
	defer b.Release()
	starts, ends := b.Cols[r.upper.Exchange.Start].Int, b.Cols[r.upper.Exchange.End].Int
	for from := 0; from < b.Len(); {
		start, end := starts[b.Row(from)], ends[b.Row(from)]
		var of []uint16
		for from < b.Len() && starts[b.Row(from)] == start && ends[b.Row(from)] == end {
			of = append(of, uint16(b.Row(from)))
			from++
		}
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
}

// settle returns the results that no host can still add to.
func (r *rounds) settle(ctx context.Context) error {
	if r.by == plan.PerRound {
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
	if all > 0 && waiting == 0 {
		until = math.MinInt64 // all remaining hosts are silent: their progress is unknown
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
		if err := r.result(ctx, w.rows); err != nil {
			return err
		}
	}
	r.closed = max(r.closed, until)
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
	if !r.due {
		return nil
	}
	r.due = false
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
			case !r.over && !p.over && crowded:
				lacking = true
			case !r.over && r.waitsFor(p):
				waits, lacking = true, true
				r.awaited++
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
			r.update(p)
			for _, b := range p.last {
				all = append(all, b.Retain())
			}
		}
		r.behind = false
		if err := r.result(ctx, all); err != nil {
			return err
		}
	}
}

// update makes the newest totals of a host up to the current round its last ones. It
// reports whether there were newer ones.
func (r *rounds) update(p *part) (newer bool) {
	for len(p.rounds) > 0 && p.rounds[0].n <= r.round {
		release(p.last)
		p.last, p.rounds, newer = p.rounds[0].rows, p.rounds[1:], true
		for _, b := range p.last {
			r.held -= b.Len()
		}
	}
	return newer
}

// result merges the hosts' rows of one result, and releases them.
func (r *rounds) result(ctx context.Context, of []*batch.Batch) error {
	events, n, err := r.upper.result(ctx, r.armed(), of)
	if err != nil {
		return err
	}
	r.returned.Add(n)
	r.out = append(append(r.out, events...), wire.Event{Kind: wire.Flush})
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
		sum.Notes = append(sum.Notes, fmt.Sprintf("answers that were left out, since this machine did not keep up with the hosts: %d", n))
	}
	if r.by == plan.PerRound || len(r.parts) < 2 {
		return sum
	}
	if within, ok := r.s.clocks.within(); ok {
		sum.Notes = append(sum.Notes, fmt.Sprintf("windows are by the clock of each host: these are %v apart, ±%s", r.s.clocks.apart(), roundedUp(within)))
	} else {
		sum.Notes = append(sum.Notes, "windows are by the clock of each host, and the difference of the clocks is unknown")
	}
	return sum
}
