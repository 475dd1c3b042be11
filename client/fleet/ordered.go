package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"endoscope/server/wire"
)

// ordered is the result of all hosts in order of time. The time of a row is its
// host's time less the host's clock offset. A row is returned when no host can
// still send one that is earlier by more than the uncertainty of the clocks. The
// rows of one host keep their order.
type ordered struct {
	aligned
	column  int // of time
	pending int // rows that wait
}

// mostPending is how many rows may wait for those of other hosts.
const mostPending = 1 << 20

func (o *ordered) Next(ctx context.Context) (wire.Event, error) { return o.advance(ctx, o) }

func (o *ordered) accept(_ context.Context, x hostEvent) error {
	switch {
	case x.over, x.ev.Kind == wire.Mark:
	case x.ev.Batch != nil:
		x.part.queue = append(x.part.queue, x.ev.Batch)
		o.pending += x.ev.Batch.Len()
	default:
		o.out = append(o.out, x.ev)
	}
	return nil
}

// settle moves the rows that are next in order from the hosts' queues to out.
func (o *ordered) settle(context.Context) error {
	if !o.over && o.pending <= mostPending && o.awaits() {
		return nil
	}
	within, _ := o.s.clocks.within()
	for len(o.out) == 0 {
		first, at := (*part)(nil), int64(math.MaxInt64)
		for _, p := range o.parts {
			if t, ok := o.head(p); ok && (first == nil || t < at) {
				first, at = p, t
			}
		}
		if first == nil {
			return nil
		}
		bound := int64(math.MaxInt64) // no other host sends anything earlier
		for _, p := range o.parts {
			if t, ok := o.head(p); p == first {
			} else if ok {
				bound = min(bound, t)
			} else if !o.over && o.waitsFor(p) {
				bound = min(bound, p.mark-int64(o.s.clocks.ahead(p.member)))
			}
		}
		if bound < math.MaxInt64-int64(within) {
			bound += int64(within)
		}
		if at > bound {
			if o.pending <= mostPending {
				return nil
			}
			o.rushed.Add(uint64(o.move(first, at, within)))
			continue
		}
		o.move(first, bound, within)
	}
	return nil
}

// head returns the time of the first unreturned row of a host, by this machine's
// clock.
func (o *ordered) head(p *part) (t int64, ok bool) {
	if len(p.queue) == 0 {
		return 0, false
	}
	return o.time(p, p.row), true
}

// time returns the time of a row of a host's first queued batch.
func (o *ordered) time(p *part, row int) int64 {
	b := p.queue[0]
	return b.Cols[o.column].Int[b.Row(row)] - int64(o.s.clocks.ahead(p.member))
}

// move moves the rows of a host's first batch up to a time to out: one, at least. It
// counts those that break the order by more than the clocks are uncertain.
func (o *ordered) move(p *part, until int64, within time.Duration) int {
	var others int64 // the newest time of returned rows of other hosts
	for _, x := range o.parts {
		if x != p {
			others = max(others, x.newest)
		}
	}
	b, from, to, late := p.queue[0], p.row, p.row, uint64(0)
	for ; to < b.Len(); to++ {
		t := o.time(p, to)
		if to > from && t > until {
			break
		}
		if t < others-int64(within) {
			late++
		}
		p.newest = max(p.newest, t)
	}
	o.late.Add(late)
	o.pending -= to - from
	if to == b.Len() {
		p.queue, p.row = slices.Delete(p.queue, 0, 1), 0
	} else {
		p.row = to
	}
	if from == 0 && to == b.Len() {
		o.out = append(o.out, wire.Event{Kind: wire.Rows, Batch: b})
		return to
	}
	rows := make([]uint16, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, uint16(b.Row(i)))
	}
	o.out = append(o.out, wire.Event{Kind: wire.Rows, Batch: b.View(rows)})
	if p.row == 0 {
		b.Release()
	}
	return to - from
}

// Summary adds how exact the order between hosts is.
func (o *ordered) Summary() wire.Summary {
	sum := o.gathered.Summary()
	if len(o.parts) < 2 {
		return sum
	}
	note := "the order between hosts is by their clocks, whose difference is unknown"
	if within, ok := o.s.clocks.within(); ok {
		note = "order between hosts is right within ±" + roundedUp(within)
	}
	if n := o.late.Load(); n > 0 {
		note += fmt.Sprintf(", but for %d rows that came too late for it", n)
	}
	sum.Notes = append(sum.Notes, note)
	if n := o.rushed.Load(); n > 0 {
		sum.Notes = append(sum.Notes, fmt.Sprintf("%d rows did not wait for those of other hosts, which were too far behind", n))
	}
	return sum
}

// roundedUp formats a duration, rounded up to whole µs.
func roundedUp(d time.Duration) string {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond).String()
}
