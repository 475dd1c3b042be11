package window

import (
	"context"

	"github.com/tidwall/btree"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// hold keeps the rows of TUMBLE and HOP windows until the watermark passes a window's end,
// and then emits that window's rows and Flush: windows in order, rows in order of arrival.
//
// Rows are stored once, in panes: pane p has the rows of [p, p+slide). A window consists of
// the panes from its start on, and is the last that needs the first of them. TUMBLE is HOP
// with a slide of its size.
type hold struct {
	windowBase
	size, slide int64
	rows        *rowstore.Store
	panes       btree.Map[int64, []int32]
	next        int64 // start of the first window that is still open
	watermark   int64
	sent        int64 // the last watermark sent downstream
	pool        *batch.Pool
	slots       []int32
}

func newHold(n *plan.Window, down operators.Operator, limit int64) operators.Operator {
	in := n.Input.Schema().Types()
	w := &hold{windowBase: newWindowBase(n, down), size: int64(n.Spec.Size), slide: int64(n.Spec.Slide),
		rows: rowstore.New(in, limit, "a window", "use shorter windows, or filter in WHERE"),
		next: operators.NoTime, watermark: operators.NoTime, sent: operators.NoTime, pool: batch.NewPool(in)}
	w.process = w.add
	if n.Spec.Kind == plan.Tumble {
		w.slide = w.size
	}
	return w
}

func (w *hold) add(ctx context.Context, b *batch.Batch) error {
	times := b.Cols[w.time].Int
	late := 0
	pane := int64(operators.NoTime)
	w.sel = w.sel[:0]
	for _, r := range batch.RowsOf(b) {
		p := operators.Floor(times[r], w.slide)
		switch {
		case p+w.size <= w.watermark:
			late++
			continue
		case times[r] >= p+w.size: // between two windows
			continue
		}
		if w.earliest(times[r])+w.size <= w.watermark {
			late++ // for this window, but perhaps not for the others
		}
		if p != pane {
			if err := w.keep(b, pane); err != nil {
				return err
			}
			pane = p
		}
		w.sel = append(w.sel, r)
	}
	if err := w.keep(b, pane); err != nil {
		return err
	}
	return w.lost(ctx, "late", late)
}

// earliest returns the start of the first window that contains a time.
func (w *hold) earliest(t int64) int64 { return operators.Floor(t-w.size, w.slide) + w.slide }

// keep stores the selected rows in a pane and empties the selection.
func (w *hold) keep(b *batch.Batch, pane int64) error {
	if len(w.sel) == 0 {
		return nil
	}
	slots, _ := w.panes.Get(pane)
	slots, err := w.rows.Add(b.Cols, w.sel, slots)
	w.panes.Set(pane, slots)
	w.sel = w.sel[:0]
	return err
}

func (w *hold) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind != operators.Watermark {
		return w.out.Signal(ctx, s)
	}
	if s.Time > w.watermark {
		w.watermark = s.Time
		if err := w.complete(ctx, s.Time); err != nil {
			return w.out.Status, err
		}
		if s.Time > operators.NoTime+w.size+w.slide {
			w.next = max(w.next, operators.Floor(s.Time-w.size, w.slide)+w.slide)
		}
	}
	// Rows still held are emitted later, with their own times.
	if first, _, ok := w.panes.Min(); ok {
		s.Time = min(s.Time, first)
	}
	if s.Time < w.sent {
		return w.out.Status, nil
	}
	w.sent = s.Time
	return w.out.Signal(ctx, s)
}

// complete emits every window that ends at or before t.
func (w *hold) complete(ctx context.Context, t int64) error {
	earliest := (w.size - 1) / w.slide * w.slide // of a row's windows, relative to its pane
	for {
		first, _, ok := w.panes.Min()
		if !ok {
			return nil
		}
		start := max(first-earliest, w.next)
		if start+w.size > t {
			return nil
		}
		if err := w.emit(ctx, start); err != nil {
			return err
		}
		if slots, ok := w.panes.Delete(start); ok {
			w.rows.Free(slots)
		}
		w.next = start + w.slide
	}
}

// emit pushes the rows of one window, and Flush if there are any.
func (w *hold) emit(ctx context.Context, start int64) error {
	end := start + w.size
	times := w.rows.Cols[w.time].Int
	w.slots = w.slots[:0]
	w.panes.Ascend(start, func(pane int64, slots []int32) bool {
		switch {
		case pane >= end:
			return false
		case pane+w.slide <= end:
			w.slots = append(w.slots, slots...)
			return true
		}
		for _, s := range slots {
			if times[s] < end {
				w.slots = append(w.slots, s)
			}
		}
		return true
	})
	if len(w.slots) == 0 {
		return nil
	}
	for rest := w.slots; len(rest) > 0; {
		n := min(len(rest), batch.MaxRows)
		if err := w.emitRows(ctx, rest[:n], start); err != nil {
			return err
		}
		rest = rest[n:]
	}
	_, err := w.out.Signal(ctx, operators.Signal{Kind: operators.Flush, Time: end})
	return err
}

func (w *hold) emitRows(ctx context.Context, slots []int32, start int64) error {
	b := w.pool.Get()
	defer b.Release()
	w.rows.Gather(b, slots)
	borders, starts, ends := w.newBorders(b.N)
	for i := range slots {
		starts[i], ends[i] = start, start+w.size
	}
	_, err := w.push(ctx, b, borders)
	return err
}

func (w *hold) Close(ctx context.Context, _ int) error {
	if err := w.complete(ctx, operators.EndOfTime); err != nil {
		return err
	}
	return w.out.Close(ctx)
}
