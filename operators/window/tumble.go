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
	w := &tumble{newWindowBase(n, down), int64(n.Spec.Size)}
	w.process = w.add
	return w
}

func (w *tumble) add(ctx context.Context, b *batch.Batch) error {
	borders, starts, ends := w.newBorders(b.N)
	rows := batch.RowsOf(b)
	floors(b.Cols[w.time].Int, rows, w.size, starts)
	for _, r := range rows {
		ends[r] = starts[r] + w.size
	}
	_, err := w.push(ctx, b, borders)
	return err
}
