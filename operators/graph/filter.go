package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// filter passes the rows for which a condition is true, as views without copying.
type filter struct {
	out  operators.Output
	cond *expr.Filter
	sel  []uint16
}

func newFilter(cond plan.Expr, in []types.Type, down operators.Operator) (operators.Operator, error) {
	c, err := expr.CompileFilter(cond, in)
	if err != nil {
		return nil, err
	}
	return &filter{out: operators.Output{To: down}, cond: c, sel: make([]uint16, 0, batch.MaxRows)}, nil
}

func (f *filter) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if f.out.Status != operators.More {
		return f.out.Status, nil
	}
	sel, err := f.cond.Select(b, f.sel[:0])
	if err != nil {
		return f.out.Status, err
	}
	f.sel = sel
	if len(sel) == b.Len() {
		return f.out.Push(ctx, b)
	}
	v := b.View(sel)
	defer v.Release()
	return f.out.Push(ctx, v)
}

func (f *filter) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return f.out.Signal(ctx, s)
}

func (f *filter) Close(ctx context.Context, _ int) error { return f.out.Close(ctx) }
