package fleet

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// changes is an aggregate of all hosts with EMIT CHANGES: when a host's group has
// changed, what all of them have of it is merged once more. What a host that has ended,
// is lost, or is silent has given stays in.
type changes struct {
	paced
	second *second
	keys   int   // the first columns, by which groups are told apart
	unique []int // columns by which a host has several rows of a group
	limit  int64 // of rows; 0: none
	groups map[string]*changed
	given  atomic.Uint64
}

// changed is what hosts have given last of a group.
type changed struct {
	at   map[string]int // of rows, by host and what is unique
	rows [][]types.Value
	news bool
}

func newChanges(g *gathered, second *second, m *merge) *changes {
	c := &changes{paced: paced{gathered: g}, second: second, keys: m.keys, limit: m.limit, groups: map[string]*changed{}}
	for i := range m.uniques {
		c.unique = append(c.unique, m.width-m.uniques+i)
	}
	return c
}

func (c *changes) Columns() []wire.Column { return c.second.cols }
func (c *changes) Message() string        { return "" }

func (c *changes) Next(ctx context.Context) (wire.Event, error) { return c.advance(ctx, c) }

func (c *changes) settle(context.Context) error { return nil }

func (c *changes) take(ctx context.Context, x given) error {
	b := x.ev.Batch
	if b == nil {
		return nil
	}
	if c.full() {
		b.Release()
		return nil
	}
	host := uint64(slices.Index(c.parts, x.part))
	var news []*changed // in order of their changes
	var key []byte
	for i := range b.Len() {
		r := b.Row(i)
		key = key[:0]
		for k := range c.keys {
			key = appendKey(key, b.Cols[k].Value(r))
		}
		g := c.groups[string(key)]
		if g == nil {
			g = &changed{at: map[string]int{}}
			c.groups[string(key)] = g
		}
		if !g.news {
			g.news = true
			news = append(news, g)
		}
		key = binary.LittleEndian.AppendUint64(key[:0], host)
		for _, k := range c.unique {
			key = appendKey(key, b.Cols[k].Value(r))
		}
		row := make([]types.Value, len(b.Cols))
		for k := range row {
			row[k] = b.Cols[k].Value(r)
		}
		if at, have := g.at[string(key)]; have {
			g.rows[at] = row
			continue
		}
		g.at[string(key)] = len(g.rows)
		g.rows = append(g.rows, row)
	}
	b.Release()
	return c.give(ctx, news)
}

// give gives what groups have become.
func (c *changes) give(ctx context.Context, news []*changed) error {
	var kinds []types.Type
	for _, col := range c.cols {
		kinds = append(kinds, col.Type)
	}
	var batches []*batch.Batch
	for _, g := range news {
		g.news = false
		for _, row := range g.rows {
			if n := len(batches); n == 0 || batches[n-1].N == batch.MaxRows {
				batches = append(batches, batch.New(kinds))
			}
			batches[len(batches)-1].AppendRow(row...)
		}
	}
	events, _, err := c.second.of(ctx, batches)
	if err != nil {
		return err
	}
	for i, ev := range events {
		if c.limit > 0 {
			ev.Batch = first(ev.Batch, c.limit-int64(c.given.Load()))
		}
		c.given.Add(uint64(ev.Batch.Len()))
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

func (c *changes) full() bool { return c.limit > 0 && int64(c.given.Load()) >= c.limit }

// Summary has the result's rows, and what the hosts say besides.
func (c *changes) Summary() wire.Summary {
	sum := c.gathered.Summary()
	sum.Rows = c.given.Load()
	return sum
}
