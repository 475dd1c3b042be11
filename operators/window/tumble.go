package window

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// tumble assigns each row to the one window of its time. The aggregate above derives from
// the watermark when a window is complete, and which rows are late.
type tumble struct {
	windowBase
	size int64
}

func newTumble(n *plan.Window, down operators.Operator) operators.Operator {
	return &tumble{newWindowBase(n, down), int64(n.Spec.Size)}
}

func (w *tumble) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if w.out.Status != operators.More {
		return w.out.Status, nil
	}
	b, err := w.timed(ctx, b)
	defer b.Release()
	if err != nil {
		return w.out.Status, err
	}
	borders, starts, ends := w.newBorders(b.N)
	rows := batch.RowsOf(b)
	floors(b.Cols[w.time].Int, rows, w.size, starts)
	for _, r := range rows {
		ends[r] = starts[r] + w.size
	}
	return w.push(ctx, b, borders)
}
