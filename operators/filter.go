package operators

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// filter passes the rows for which a condition is true, as views: it copies
// no row.
type filter struct {
	out  output
	cond *expr.Filter
	sel  []uint16
}

func newFilter(cond plan.Expr, in []types.Type, down Operator) (Operator, error) {
	c, err := expr.CompileFilter(cond, in)
	if err != nil {
		return nil, err
	}
	return &filter{out: output{op: down}, cond: c, sel: make([]uint16, 0, batch.MaxRows)}, nil
}

func (f *filter) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	if f.out.status != More {
		return f.out.status, nil
	}
	sel, err := f.cond.Select(b, f.sel[:0])
	if err != nil {
		return f.out.status, err
	}
	f.sel = sel
	if len(sel) == b.Len() {
		return f.out.push(ctx, b)
	}
	v := b.View(sel)
	defer v.Release()
	return f.out.push(ctx, v)
}

func (f *filter) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	return f.out.signal(ctx, s)
}

func (f *filter) Close(ctx context.Context, _ int) error { return f.out.close(ctx) }
