package window

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// windowBase is the part that all windows share: they read a time column and add two
// columns, window_start and window_end, of the same type (ns, or lines of a file without
// timestamps). A window is [window_start, window_end).
type windowBase struct {
	out     operators.Output
	time    int
	process func(context.Context, *batch.Batch) error // of a batch whose rows have times
	borders *batch.Pool                               // of window_start, window_end
	cols    []batch.Column                            // scratch: the headers of one result
	sel     []uint16
}

func newWindowBase(n *plan.Window, down operators.Operator) windowBase {
	out := n.Out.Types()
	return windowBase{
		out: operators.Output{To: down}, time: n.Spec.Time,
		borders: batch.NewPool(out[len(out)-2:]),
		cols:    make([]batch.Column, len(out)),
		sel:     make([]uint16, 0, batch.MaxRows),
	}
}

func New(n *plan.Window, down operators.Operator, limit int64) (operators.Operator, error) {
	w := &n.Spec
	switch {
	case w.Kind == plan.Session && w.Gap <= 0:
		return nil, plan.Errorf(-1, -1, "the gap of a SESSION window must be greater than zero")
	case w.Kind != plan.Session && w.Size <= 0 || w.Kind == plan.Hop && w.Slide <= 0:
		return nil, plan.Errorf(-1, -1, "the size of a window must be greater than zero")
	}
	switch {
	case w.Kind == plan.Session:
		return newSession(n, down, limit)
	case n.Hold:
		return newHold(n, down, limit), nil
	case w.Kind == plan.Hop:
		return newHop(n, down), nil
	}
	return newTumble(n, down), nil
}

// timed returns b without the rows whose time is NULL, which lie in no window and are
// reported as lost. The caller releases it.
func (w *windowBase) timed(ctx context.Context, b *batch.Batch) (*batch.Batch, error) {
	nulls := b.Cols[w.time].Nulls
	if !nulls.Any() {
		return b.Retain(), nil
	}
	w.sel = w.sel[:0]
	for _, r := range batch.RowsOf(b) {
		if !nulls.Get(int(r)) {
			w.sel = append(w.sel, r)
		}
	}
	err := w.lost(ctx, "no timestamp", b.Len()-len(w.sel))
	return b.View(w.sel), err
}

// lost reports rows that lie in no window, or in closed ones only.
func (w *windowBase) lost(ctx context.Context, cause string, n int) error {
	if n == 0 {
		return nil
	}
	_, err := w.out.Signal(ctx, operators.Signal{Kind: operators.Gap, Cause: cause, N: uint64(n)})
	return err
}

// newBorders returns the window columns for n rows.
func (w *windowBase) newBorders(n int) (b *batch.Batch, starts, ends []int64) {
	b = w.borders.Get()
	for i := range b.Cols {
		b.Cols[i].Int = rowstore.Extend(b.Cols[i].Int, n)
	}
	b.N = n
	return b, b.Cols[0].Int, b.Cols[1].Int
}

// push emits b's rows with their borders and releases borders.
func (w *windowBase) push(ctx context.Context, b, borders *batch.Batch) (operators.Status, error) {
	n := copy(w.cols, b.Cols)
	copy(w.cols[n:], borders.Cols)
	d := b.Derive(borders, w.cols)
	clear(w.cols)
	defer d.Release()
	return w.out.Push(ctx, d)
}

func (w *windowBase) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if w.out.Status != operators.More {
		return w.out.Status, nil
	}
	b, err := w.timed(ctx, b)
	defer b.Release()
	if err == nil {
		err = w.process(ctx, b)
	}
	return w.out.Status, err
}

func (w *windowBase) Close(ctx context.Context, _ int) error { return w.out.Close(ctx) }

func (w *windowBase) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return w.out.Signal(ctx, s)
}

// floors writes the floor of each row's time to dst. Consecutive rows usually share it,
// which takes a subtraction instead of a division.
func floors(times []int64, rows []uint16, step int64, dst []int64) {
	if len(rows) == 0 {
		return
	}
	f := operators.Floor(times[rows[0]], step)
	for _, r := range rows {
		if d := times[r] - f; d < 0 || d >= step {
			f = operators.Floor(times[r], step)
		}
		dst[r] = f
	}
}
