package agg

import (
	"cmp"
	"context"
	"math"
	"slices"

	"endoscope/operators"
	"endoscope/operators/agg/grouping"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// windowSets are the open windows of an aggregate: a set of groups for each, in
// order of their ends. A window's borders are not part of the keys of its table,
// since they are the same for all its groups. Sets of closed windows are reused.
type windowSets struct {
	startKey, endKey int // indexes into the node's Keys; startKey may be -1
	startOf, endOf   *expr.Program
	open             []*groupSet // ascending by (end, start)
	idle             []*groupSet
	groups           int   // of all open windows
	closed           int64 // windows that end here or before are closed
	slide            int64 // of HOP windows, which overlap; else 0

	parts []windowPart // of the batch being pushed
	late  []uint16     // its rows that are in no open window
}

// maxIdle limits the sets kept for later windows.
const maxIdle = 64

// windowPart is the rows of a batch that are in one window.
type windowPart struct {
	set  *groupSet
	rows []uint16
}

// setUpWindows splits the keys into the window's borders and the others.
func (a *Aggregate) setUpWindows(in []types.Type) (err error) {
	w := &windowSets{closed: math.MinInt64}
	w.startKey, w.endKey = a.node.Borders()
	for i, e := range a.node.Keys {
		switch i {
		case w.endKey:
			w.endOf, err = expr.Compile(e, in)
		case w.startKey:
			w.startOf, err = expr.Compile(e, in)
		default:
			err = a.addKey(e, in)
		}
		if err != nil {
			return err
		}
	}
	if err := a.addHiddenKeys(in); err != nil {
		return err
	}
	w.slide = slideBelow(a.node.Input)
	a.windows = w
	s, err := a.newSet() // reports errors in the aggregates now
	w.idle = append(w.idle, s)
	return err
}

// pushWindows folds each row of b into its window. Rows of closed windows are
// late: counted and dropped.
func (a *Aggregate) pushWindows(ctx context.Context, b *batch.Batch) error {
	w := a.windows
	end, err := w.endOf.Eval(b)
	if err != nil {
		return err
	}
	var starts []int64
	if w.startOf != nil {
		start, err := w.startOf.Eval(b)
		if err != nil {
			return err
		}
		starts = start.Int
	}
	var times []int64
	if a.time >= 0 {
		times = b.Cols[a.time].Int
	}
	late, err := a.divide(batch.RowsOf(b), times, starts, end.Int)
	if err != nil {
		return err
	}
	for _, p := range w.parts {
		if err := a.fold(ctx, p.set, b, p.rows); err != nil {
			return err
		}
	}
	return a.lost(ctx, "late", uint64(len(late)))
}

// slideBelow returns the slide of the HOP that is the input of a windowed
// aggregate; 0 if the input is not a HOP.
func slideBelow(n plan.Node) int64 {
	for {
		if w, ok := n.(*plan.Window); ok && w.Spec.Kind == plan.Hop {
			return int64(w.Spec.Slide)
		}
		in := n.Inputs()
		if len(in) != 1 {
			return 0
		}
		n = in[0]
	}
}

// divide fills parts with the rows of open windows and returns the late rows.
// starts and ends are the windows' borders by physical row (no starts: 0).
// Consecutive rows are mostly in one window. A row occurs once for each HOP window
// that contains it: it is late in the earliest of these if it is in any, and is
// counted there.
func (a *Aggregate) divide(rows []uint16, times, starts, ends []int64) (late []uint16, err error) {
	w := a.windows
	w.parts, late = w.parts[:0], w.late[:0]
	var part *windowPart
	for _, r := range rows {
		if ends[r] <= w.closed {
			if w.slide == 0 || times == nil || ends[r]-w.slide <= times[r] {
				late = append(late, r)
			}
			continue
		}
		start := int64(0)
		if starts != nil {
			start = starts[r]
		}
		if part == nil || part.set.end != ends[r] || part.set.start != start {
			if part, err = a.part(start, ends[r]); err != nil {
				return nil, err
			}
		}
		part.rows = append(part.rows, r)
	}
	w.late = late
	return late, nil
}

// part finds or adds the part of the batch that is in a window.
func (a *Aggregate) part(start, end int64) (*windowPart, error) {
	w := a.windows
	for i := range w.parts {
		if p := &w.parts[i]; p.set.end == end && p.set.start == start {
			return p, nil
		}
	}
	s, err := a.window(start, end)
	if err != nil {
		return nil, err
	}
	n := len(w.parts)
	w.parts = slices.Grow(w.parts, 1)[:n+1] // with the rows' memory of earlier batches
	w.parts[n] = windowPart{s, w.parts[n].rows[:0]}
	return &w.parts[n], nil
}

// window finds or opens a window.
func (a *Aggregate) window(start, end int64) (*groupSet, error) {
	w := a.windows
	i, found := slices.BinarySearchFunc(w.open, windowBorders{start, end}, func(s *groupSet, b windowBorders) int {
		return cmp.Or(cmp.Compare(s.end, b.end), cmp.Compare(s.start, b.start))
	})
	if found {
		return w.open[i], nil
	}
	var s *groupSet
	if n := len(w.idle); n > 0 {
		s, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		var err error
		if s, err = a.newSet(); err != nil {
			return nil, err
		}
	}
	s.start, s.end = start, end
	if w.startOf != nil {
		s.length = end - start
	}
	s.grow()
	w.groups += s.table.Len()
	w.open = slices.Insert(w.open, i, s)
	return s, nil
}

type windowBorders struct{ start, end int64 }

// closeWindows emits the windows that end at t or before, each followed by Flush,
// and drops them.
func (a *Aggregate) closeWindows(ctx context.Context, t int64) error {
	w := a.windows
	w.closed = max(w.closed, t)
	n := 0
	for n < len(w.open) && w.open[n].end <= t && a.out.Status == operators.More {
		if err := a.closeWindow(ctx, w.open[n]); err != nil {
			return err
		}
		n++
	}
	if n > 0 {
		w.open = slices.Delete(w.open, 0, n)
		a.compactKeys()
	}
	return nil
}

func (a *Aggregate) closeAllWindows(ctx context.Context) error {
	return a.closeWindows(ctx, math.MaxInt64)
}

func (a *Aggregate) closeWindow(ctx context.Context, s *groupSet) error {
	if err := a.emitAll(ctx, s, 0); err != nil {
		return err
	}
	a.windows.groups -= s.table.Len()
	for _, acc := range s.accs {
		if v, ok := acc.(valueHolder); ok {
			a.held -= v.Bytes()
		}
	}
	if s.reset(); len(a.windows.idle) < maxIdle {
		a.windows.idle = append(a.windows.idle, s)
	}
	_, err := a.out.Signal(ctx, operators.Signal{Kind: operators.Flush, Time: s.end})
	return err
}

// compactKeys drops the strings of closed windows when there are many more of them
// than open windows need. Otherwise a query over ever new strings would keep all
// of them.
func (a *Aggregate) compactKeys() {
	w := a.windows
	for _, k := range a.keys {
		switch {
		case k.Space == nil:
		case len(w.open) == 0:
			k.Space.Reset()
		case k.Space.Own && k.Space.Size() > 2*w.groups+rowstore.MaxDict:
			a.compactKey(k)
		}
	}
}

func (a *Aggregate) compactKey(k *grouping.Key) {
	c := slices.Index(a.keys, k)
	used := make([]bool, k.Space.Size())
	for _, s := range a.windows.open {
		s.table.Mark(c, used)
	}
	codes := k.Space.Compact(used)
	for _, s := range a.windows.open {
		s.table.Recode(c, codes)
	}
	for _, s := range a.windows.idle {
		s.table.Recode(c, codes)
	}
}
