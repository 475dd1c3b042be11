package window

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"unsafe"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sessions groups each partition's rows into sessions: rows less than gap apart belong
// together. A session is the window [first time, last time + gap). Its borders are known
// only when it closes, once the watermark has passed its end, so its rows are kept until
// then. They are emitted in order of time, sessions in order of their end. Rows out of
// order may extend or join open sessions; one that could only lie in a closed session is
// late.
//
// The aggregate above closes window groups by window_end. It gets the watermark after the
// sessions that the watermark closes, and never sees a later session that ends at or before
// it, so it can close exactly these, although rows of sessions still open, with lower
// times, come after it. With hold each session is followed by Flush, nothing above depends
// on window_end, and the watermark is held back to the start of the oldest open session.
type sessions struct {
	windowBase
	hold bool
	gap  int64
	rows *rowstore.Store

	keys  []*expr.Program // PARTITION BY
	kcols []batch.Column  // scratch
	parts *rowstore.KeyTable
	ids   []uint32 // scratch: the partition of each row
	open  [][]*session
	due   dueSessions

	watermark, sent int64
	seq             int64
	pool            *batch.Pool
	kept            []uint16             // scratch: rows that are not late
	targets         []*session           // scratch: their sessions
	slots           []int32              // scratch: rows added, or to be pushed
	starts, ends    [batch.MaxRows]int64 // of the rows to be pushed
	idle            []*session           // closed, for reuse
}

// session is an open session.
type session struct {
	part        uint32
	start, last int64
	seq         int64   // creation number, which makes the order of results deterministic
	slots       []int32 // its rows; in order of time unless unordered
	unordered   bool
	joined      *session // the session it was merged into
}

func newSession(n *plan.Window, down operators.Operator, limit int64) (operators.Operator, error) {
	in := n.Input.Schema().Types()
	w := &sessions{windowBase: newWindowBase(n, down), hold: n.Hold, gap: int64(n.Spec.Gap),
		rows:      rowstore.New(in, limit, "SESSION", "use a shorter gap, or filter in WHERE"),
		open:      make([][]*session, 1),
		watermark: operators.NoTime, sent: operators.NoTime, pool: batch.NewPool(in)}
	w.process = w.add
	var kinds []types.Type
	for _, e := range n.Spec.PartitionBy {
		p, err := expr.Compile(e, in)
		if err != nil {
			return nil, err
		}
		w.keys = append(w.keys, p)
		kinds = append(kinds, e.Type())
	}
	if len(w.keys) > 0 {
		w.parts = rowstore.NewKeyTable(kinds)
		w.kcols = make([]batch.Column, len(kinds))
	}
	return w, nil
}

func (w *sessions) add(ctx context.Context, b *batch.Batch) error {
	if err := w.partition(b); err != nil {
		return err
	}
	rows, times := batch.RowsOf(b), b.Cols[w.time].Int
	sel := w.kept[:0]
	w.targets = w.targets[:0]
	for i, r := range rows {
		if s := w.place(w.ids[i], times[r]); s != nil {
			sel = append(sel, r)
			w.targets = append(w.targets, s)
		}
	}
	w.kept = sel
	var err error
	w.slots, err = w.rows.Add(b.Cols, sel, w.slots[:0])
	for i, s := range w.targets {
		for s.joined != nil {
			s = s.joined
		}
		s.slots = append(s.slots, w.slots[i])
	}
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return err
	}
	return w.lost(ctx, "late", len(rows)-len(sel))
}

// check counts the memory of many short sessions besides their rows.
func (w *sessions) check() error {
	n := w.rows.Bytes() + int64(len(w.due))*int64(unsafe.Sizeof(session{})+unsafe.Sizeof(due{}))
	if w.parts != nil {
		n += w.parts.Bytes()
	}
	if n > w.rows.Limit {
		return w.rows.TooLarge()
	}
	return nil
}

// partition finds the partition of each selected row.
func (w *sessions) partition(b *batch.Batch) error {
	w.ids = w.ids[:0]
	if w.parts == nil {
		w.ids = append(w.ids, make([]uint32, b.Len())...)
		return nil
	}
	for i, p := range w.keys {
		c, err := p.Eval(b)
		if err != nil {
			return err
		}
		w.kcols[i] = *c
	}
	w.ids = w.parts.Lookup(w.kcols, batch.RowsOf(b), w.ids)
	w.open = rowstore.Extend(w.open, w.parts.Len())
	return nil
}

// place finds or opens the session of a row at time t, or nil if it is late.
func (w *sessions) place(part uint32, t int64) *session {
	// Usually the row belongs to the latest session or comes after it.
	list := w.open[part]
	i := len(list)
	for i > 0 && t <= list[i-1].start-w.gap {
		i--
	}
	if i == 0 || t >= list[i-1].last+w.gap {
		if t+w.gap <= w.watermark {
			return nil
		}
		s := w.newSession()
		s.part, s.start, s.last, s.seq = part, t, t, w.seq
		w.seq++
		w.open[part] = slices.Insert(list, i, s)
		heap.Push(&w.due, due{t + w.gap, s})
		return s
	}
	s := list[i-1]
	s.unordered = s.unordered || t < s.last
	s.start, s.last = min(s.start, t), max(s.last, t)
	if i > 1 && s.start < list[i-2].last+w.gap {
		w.join(list[i-2], s)
		w.open[part] = slices.Delete(list, i-1, i)
		s = list[i-2]
	}
	return s
}

// newSession returns a session, a recycled one if available.
func (w *sessions) newSession() *session {
	n := len(w.idle)
	if n == 0 {
		return &session{}
	}
	s := w.idle[n-1]
	w.idle = w.idle[:n-1]
	return s
}

// recycle keeps s for reuse, and the memory for its rows if its size is typical.
func (w *sessions) recycle(s *session) {
	const usual = 4 * batch.MaxRows
	slots := s.slots[:0]
	if cap(slots) > usual {
		slots = nil
	}
	*s = session{slots: slots}
	w.idle = append(w.idle, s)
}

// join merges b, the next session of the same partition, into a.
func (w *sessions) join(a, b *session) {
	a.last = b.last
	a.slots = append(a.slots, b.slots...)
	a.unordered = true
	b.joined, b.slots = a, nil
}

func (w *sessions) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind != operators.Watermark {
		return w.out.Signal(ctx, s)
	}
	if s.Time > w.watermark {
		w.watermark = s.Time
		if err := w.complete(ctx, s.Time); err != nil {
			return w.out.Status, err
		}
	}
	if w.hold {
		for _, list := range w.open {
			if len(list) > 0 {
				s.Time = min(s.Time, list[0].start)
			}
		}
	}
	if s.Time < w.sent {
		return w.out.Status, nil
	}
	w.sent = s.Time
	return w.out.Signal(ctx, s)
}

// complete closes and emits all sessions that end at or before t.
func (w *sessions) complete(ctx context.Context, t int64) error {
	closed := w.targets[:0]
	for len(w.due) > 0 && w.due[0].end <= t {
		d := &w.due[0]
		s := d.session
		switch {
		case s.joined != nil:
			heap.Pop(&w.due)
			w.recycle(s)
		case s.last+w.gap > d.end: // it has been extended since
			d.end = s.last + w.gap
			heap.Fix(&w.due, 0)
		default:
			heap.Pop(&w.due)
			closed = append(closed, s)
		}
	}
	w.targets = closed
	slices.SortFunc(closed, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.start, b.start), cmp.Compare(a.seq, b.seq))
	})
	w.slots = w.slots[:0]
	for _, s := range closed {
		if err := w.emit(ctx, s); err != nil {
			return err
		}
	}
	if err := w.pushRows(ctx); err != nil {
		return err
	}
	for _, s := range closed {
		list := w.open[s.part]
		i := slices.Index(list, s)
		w.open[s.part] = slices.Delete(list, i, i+1)
		w.rows.Free(s.slots)
		w.recycle(s)
	}
	w.forget()
	return nil
}

// emit adds the rows of one session to the rows to push; with hold they are pushed at once,
// followed by Flush.
func (w *sessions) emit(ctx context.Context, s *session) error {
	if s.unordered {
		times := w.rows.Cols[w.time].Int
		slices.SortStableFunc(s.slots, func(a, b int32) int { return cmp.Compare(times[a], times[b]) })
	}
	end := s.last + w.gap
	for _, slot := range s.slots {
		if len(w.slots) == batch.MaxRows {
			if err := w.pushRows(ctx); err != nil {
				return err
			}
		}
		w.starts[len(w.slots)], w.ends[len(w.slots)] = s.start, end
		w.slots = append(w.slots, slot)
	}
	if !w.hold {
		return nil
	}
	if err := w.pushRows(ctx); err != nil {
		return err
	}
	_, err := w.out.Signal(ctx, operators.Signal{Kind: operators.Flush, Time: end})
	return err
}

// pushRows pushes the rows in slots, with their borders.
func (w *sessions) pushRows(ctx context.Context) error {
	if len(w.slots) == 0 {
		return nil
	}
	b := w.pool.Get()
	defer b.Release()
	w.rows.Gather(b, w.slots)
	borders, starts, ends := w.newBorders(b.N)
	copy(starts, w.starts[:b.N])
	copy(ends, w.ends[:b.N])
	w.slots = w.slots[:0]
	_, err := w.push(ctx, b, borders)
	return err
}

// forget drops partitions without an open session when there are many, so that short-lived
// partitions (threads) do not accumulate.
func (w *sessions) forget() {
	const few = 1024
	if len(w.open) < few {
		return
	}
	var ids []uint32
	for id, list := range w.open {
		if len(list) > 0 {
			ids = append(ids, uint32(id))
		}
	}
	if 2*len(ids) > len(w.open) {
		return
	}
	w.parts.Retain(ids)
	for i, id := range ids {
		w.open[i] = w.open[id]
		for _, s := range w.open[i] {
			s.part = uint32(i)
		}
	}
	clear(w.open[len(ids):])
	w.open = w.open[:len(ids)]
}

func (w *sessions) Close(ctx context.Context, _ int) error {
	if err := w.complete(ctx, operators.EndOfTime); err != nil {
		return err
	}
	return w.out.Close(ctx)
}

// due is the earliest time at which a session can be closed: its end when it was last
// checked. The heap of these is corrected only at its top, so extending a session does not
// touch it.
type due struct {
	end     int64
	session *session
}

type dueSessions []due

func (d dueSessions) Len() int { return len(d) }

func (d dueSessions) Less(i, j int) bool { return d[i].end < d[j].end }

func (d dueSessions) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *dueSessions) Push(x any) { *d = append(*d, x.(due)) }

func (d *dueSessions) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}
