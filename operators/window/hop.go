package window

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// hop emits each row once for each window that contains it: the same columns are pushed
// again with other borders, each row's latest window first, so that a window gets its rows
// in order. If the slide is greater than the size, rows between windows are in none.
type hop struct {
	windowBase
	size, slide int64
	latest      []int64 // scratch: the start of each row's last window
}

func newHop(n *plan.Window, down operators.Operator) operators.Operator {
	w := &hop{windowBase: newWindowBase(n, down), size: int64(n.Spec.Size), slide: int64(n.Spec.Slide)}
	w.process = w.add
	return w
}

func (w *hop) add(ctx context.Context, b *batch.Batch) error {
	w.latest = rowstore.Extend(w.latest, b.N)
	times := b.Cols[w.time].Int
	floors(times, batch.RowsOf(b), w.slide, w.latest)
	// A row is back after the start of its latest window; it lies in the window n slides
	// before that if it is less than size after that window's start.
	for back := int64(0); back < w.size; back += w.slide {
		if err := w.pushBack(ctx, b, times, back); err != nil {
			return err
		}
	}
	return nil
}

// pushBack pushes the rows of b that lie in the window that starts back before their latest
// one.
func (w *hop) pushBack(ctx context.Context, b *batch.Batch, times []int64, back int64) error {
	in := b
	if back+w.slide > w.size { // not every row does
		w.sel = w.sel[:0]
		for _, r := range batch.RowsOf(b) {
			if times[r]-w.latest[r]+back < w.size {
				w.sel = append(w.sel, r)
			}
		}
		in = b.View(w.sel)
		defer in.Release()
	}
	borders, starts, ends := w.newBorders(b.N)
	for _, r := range batch.RowsOf(in) {
		starts[r] = w.latest[r] - back
		ends[r] = starts[r] + w.size
	}
	_, err := w.push(ctx, in, borders)
	return err
}
