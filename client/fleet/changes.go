package fleet

import (
	"context"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// changes is an aggregate over all hosts with EMIT CHANGES: when groups of a host
// have changed, the rows of all hosts for these groups are merged again. Rows of a
// host that has ended, is lost, or is silent remain included.
type changes struct {
	aligned
	keys   int   // columns from 1 on that identify a group
	limit  int64 // of rows; 0 if unlimited
	groups map[string]*changed
}

// changed is the last rows of each host for a group.
type changed struct {
	of   map[int][][]types.Value // by host
	news bool
}

func newChanges(g *gathered) *changes {
	return &changes{aligned: aligned{gathered: g}, keys: len(g.upper.states().Keys), limit: g.upper.Exchange.Limit, groups: map[string]*changed{}}
}

func (c *changes) Columns() []wire.Column { return c.upper.cols }
func (c *changes) Message() string        { return "" }

func (c *changes) Next(ctx context.Context) (wire.Event, error) { return c.advance(ctx, c) }

func (c *changes) settle(context.Context) error { return nil }

// accept collects a host's changed groups up to the Flush that ends them.
func (c *changes) accept(ctx context.Context, x hostEvent) error {
	switch {
	case x.over:
		x.part.take(true)
	case x.ev.Kind == wire.Flush:
		defer x.part.take(true)
		if c.full() {
			return nil
		}
		return c.emit(ctx, c.note(slices.Index(c.parts, x.part), x.part.queue))
	case x.ev.Batch != nil:
		x.part.queue = append(x.part.queue, x.ev.Batch)
	}
	return nil
}

// note replaces the rows of a host for groups. It returns these groups in the
// order of their changes.
func (c *changes) note(host int, batches []*batch.Batch) (news []*changed) {
	var key []byte
	for _, b := range batches {
		for i := range b.Len() {
			r := b.Row(i)
			key = key[:0]
			for _, k := range c.upper.Exchange.Pick[1 : 1+c.keys] {
				key = appendKey(key, b.Cols[k].Value(r))
			}
			g := c.groups[string(key)]
			if g == nil {
				g = &changed{of: map[int][][]types.Value{}}
				c.groups[string(key)] = g
			}
			if !g.news {
				g.news, g.of[host] = true, nil
				news = append(news, g)
			}
			row := make([]types.Value, len(b.Cols))
			for k := range row {
				row[k] = b.Cols[k].Value(r)
			}
			g.of[host] = append(g.of[host], row)
		}
	}
	return news
}

// emit computes the current results of changed groups.
func (c *changes) emit(ctx context.Context, news []*changed) error {
	kinds := typesOf(c.cols)
	var all []*batch.Batch
	for _, g := range news {
		g.news = false
		for host := range c.parts {
			for _, row := range g.of[host] {
				if n := len(all); n == 0 || all[n-1].N == batch.MaxRows {
					all = append(all, batch.New(kinds))
				}
				all[len(all)-1].AppendRow(row...)
			}
		}
	}
	events, _, err := c.upper.result(ctx, c.armed(), all)
	if err != nil {
		return err
	}
	for i, ev := range events {
		if c.limit > 0 {
			ev.Batch = first(ev.Batch, c.limit-int64(c.returned.Load()))
		}
		c.returned.Add(uint64(ev.Batch.Len()))
		c.out = append(c.out, ev)
		if c.full() {
			c.Stop() // the hosts need not go on
			for _, ev := range events[i+1:] {
				ev.Batch.Release()
			}
			break
		}
	}
	return nil
}

func (c *changes) full() bool { return c.limit > 0 && int64(c.returned.Load()) >= c.limit }

// Summary returns the number of result rows, and the other counters of the hosts.
func (c *changes) Summary() wire.Summary {
	sum := c.gathered.Summary()
	sum.Rows = c.returned.Load()
	return sum
}
