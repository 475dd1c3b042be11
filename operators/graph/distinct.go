package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// distinct drops rows seen before, over the query's life or (perFlush) within each emitted
// result. It remembers every distinct row, up to the operator's memory limit; rows that
// pass are views.
type distinct struct {
	out      operators.Output
	perFlush bool
	limit    int64
	seen     *rowstore.KeyTable
	ids      []uint32
	sel      []uint16
}

func newDistinct(n *plan.Distinct, down operators.Operator, limit int64) operators.Operator {
	return &distinct{out: operators.Output{To: down}, perFlush: n.PerFlush, limit: limit,
		seen: rowstore.NewKeyTable(n.Schema().Types())}
}

func (d *distinct) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if d.out.Status != operators.More {
		return d.out.Status, nil
	}
	rows := batch.RowsOf(b)
	next := uint32(d.seen.Len()) // the number of the next new key
	d.ids = d.seen.Lookup(b.Cols, rows, d.ids[:0])
	d.sel = d.sel[:0]
	for i, id := range d.ids {
		if id == next {
			d.sel = append(d.sel, rows[i])
			next++
		}
	}
	if d.seen.Bytes() > d.limit {
		return d.out.Status, rowstore.TooLarge("DISTINCT", d.limit, "select fewer columns, or put a window into FROM")
	}
	if len(d.sel) == len(rows) {
		return d.out.Push(ctx, b)
	}
	v := b.View(d.sel)
	defer v.Release()
	return d.out.Push(ctx, v)
}

func (d *distinct) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Flush && d.perFlush {
		d.seen.Reset()
	}
	return d.out.Signal(ctx, s)
}

func (d *distinct) Close(ctx context.Context, _ int) error { return d.out.Close(ctx) }
