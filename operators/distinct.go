package operators

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// distinct drops rows seen before, over the query's life or (perFlush) within
// each emitted result. It remembers every different row, up to the limit on
// what an operator may hold; rows that pass are views.
type distinct struct {
	out      output
	perFlush bool
	limit    int64
	seen     *keyTable
	ids      []uint32
	sel      []uint16
}

func newDistinct(n *plan.Distinct, down Operator, limit int64) Operator {
	return &distinct{out: output{op: down}, perFlush: n.PerFlush, limit: limit,
		seen: newKeyTable(n.Schema().Types())}
}

func (d *distinct) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	if d.out.status != More {
		return d.out.status, nil
	}
	rows := rowsOf(b)
	next := uint32(d.seen.len()) // the number of the next new key
	d.ids = d.seen.lookup(b.Cols, rows, d.ids[:0])
	d.sel = d.sel[:0]
	for i, id := range d.ids {
		if id == next {
			d.sel = append(d.sel, rows[i])
			next++
		}
	}
	if d.seen.bytes() > d.limit {
		return d.out.status, tooLarge("DISTINCT", d.limit, "select fewer columns, or put a window into FROM")
	}
	if len(d.sel) == len(rows) {
		return d.out.push(ctx, b)
	}
	v := b.View(d.sel)
	defer v.Release()
	return d.out.push(ctx, v)
}

func (d *distinct) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	if s.Kind == Flush && d.perFlush {
		d.seen.reset()
	}
	return d.out.signal(ctx, s)
}

func (d *distinct) Close(ctx context.Context, _ int) error { return d.out.close(ctx) }
