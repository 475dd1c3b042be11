package graph

import (
	"container/heap"
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// union merges its inputs by time: a row is emitted when the watermarks show that no input
// can produce an earlier one. Rows of equal time keep their order of arrival. Late rows are
// forwarded late. Without a time column rows pass through at once.
//
// Waiting rows are split into runs, parts of a batch in order of time, in a heap by first
// row: long runs that no other run overlaps are forwarded as views, and only rows that are
// really interleaved are copied.
//
// Signals: the watermark is the minimum over all open inputs. A Gap is forwarded at once. A
// Tick is forwarded when every open input has sent it (the engine sends each Tick to every
// source). A Flush stays after the rows before it. After a Barrier, an input's rows wait
// until every open input has reached it, and everything of that epoch has been emitted.
type union struct {
	out    operators.Output
	time   int // -1: no time column
	inputs []operators.Input
	runs   runHeap
	epoch  int                // barriers forwarded
	behind []operators.Signal // barriers reached by some inputs but not all
	seq    uint64
	sent   int64 // the last watermark sent downstream
	ticks  [2]int64
	rows   *rowstore.Gatherer
	held   int64 // approximate bytes
	width  int64
	limit  int64
}

// run is a run of waiting rows: rows of b in order of time. Without a batch it is a Flush.
type run struct {
	epoch int
	time  int64 // of the next row
	seq   uint64
	b     *batch.Batch // retained
	rows  []uint16     // remaining rows of b
	flush operators.Signal
}

func newUnion(n *plan.Union, down operators.Operator, limit int64) *union {
	u := &union{out: operators.Output{To: down}, time: n.Out.Time, inputs: make([]operators.Input, len(n.Ins)),
		sent: operators.NoTime, ticks: [2]int64{operators.NoTime, operators.NoTime}, rows: rowstore.NewGatherer(n.Out.Types()),
		width: 16 * int64(len(n.Out.Fields)), limit: limit}
	for i := range u.inputs {
		u.inputs[i] = operators.Input{Watermark: operators.NoTime, Latest: operators.NoTime, Ticks: u.ticks}
	}
	return u
}

func (u *union) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	if u.out.Status != operators.More || b.Len() == 0 {
		return u.out.Status, nil
	}
	if u.time < 0 {
		return u.out.Push(ctx, b)
	}
	u.cut(&u.inputs[port], b)
	if u.held > u.limit {
		return u.out.Status, rowstore.TooLarge("UNION ALL", u.limit, "one of its inputs makes no progress, and the others wait for it")
	}
	return u.out.Status, u.releaseTo(ctx, u.watermark())
}

// cut adds the runs of b to the waiting runs.
func (u *union) cut(in *operators.Input, b *batch.Batch) {
	rows := batch.RowsOf(b)
	times := eventTimes{&b.Cols[u.time]}
	first, last := 0, times.at(rows[0])
	for i := 1; i <= len(rows); i++ {
		t := int64(operators.NoTime)
		if i < len(rows) {
			if t = times.at(rows[i]); t >= last {
				last = t
				continue
			}
		}
		u.add(run{epoch: in.Epoch, time: times.at(rows[first]), b: b.Retain(), rows: rows[first:i]})
		in.Latest = max(in.Latest, last)
		first, last = i, t
	}
}

func (u *union) add(r run) {
	r.seq = u.seq
	u.seq++
	u.held += int64(len(r.rows)) * u.width
	heap.Push(&u.runs, r)
}

// eventTimes reads a time column; a row without time is before all others.
type eventTimes struct{ col *batch.Column }

func (e eventTimes) at(r uint16) int64 {
	if e.col.Nulls.Get(int(r)) {
		return operators.NoTime
	}
	return e.col.Int[r]
}

// releaseTo emits the rows of this epoch up to time t.
func (u *union) releaseTo(ctx context.Context, t int64) error {
	for len(u.runs) > 0 && u.runs[0].epoch == u.epoch && u.runs[0].time <= t {
		if err := u.step(ctx, t); err != nil {
			return err
		}
	}
	return u.pushRows(ctx)
}

// step emits the rows of the first run that precede every other run.
func (u *union) step(ctx context.Context, t int64) error {
	r := &u.runs[0]
	if r.b == nil {
		flush := r.flush
		heap.Pop(&u.runs)
		if err := u.pushRows(ctx); err != nil {
			return err
		}
		_, err := u.out.Signal(ctx, flush)
		return err
	}
	times := eventTimes{&r.b.Cols[u.time]}
	n := 1
	if next := u.runs.second(); next == nil {
		for n < len(r.rows) && times.at(r.rows[n]) <= t {
			n++
		}
	} else {
		for n < len(r.rows) {
			at := times.at(r.rows[n])
			if at > t || !before(r.epoch, at, r.seq, next) {
				break
			}
			n++
		}
	}
	b, rows := r.b, r.rows[:n]
	r.rows = r.rows[n:]
	u.held -= int64(n) * u.width
	if len(r.rows) > 0 {
		r.time = times.at(r.rows[0])
		heap.Fix(&u.runs, 0)
		b.Retain()
	} else {
		heap.Pop(&u.runs)
	}
	defer b.Release()
	return u.emit(ctx, b, rows)
}

// minView is the number of rows from which a view is cheaper than a copy.
const minView = 128

func (u *union) emit(ctx context.Context, b *batch.Batch, rows []uint16) error {
	if len(rows) >= minView {
		if err := u.pushRows(ctx); err != nil {
			return err
		}
		v := b.View(rows)
		defer v.Release()
		_, err := u.out.Push(ctx, v)
		return err
	}
	if u.rows.Room() < len(rows) {
		if err := u.pushRows(ctx); err != nil {
			return err
		}
	}
	u.rows.Add(b, rows)
	return nil
}

// pushRows pushes the copied rows.
func (u *union) pushRows(ctx context.Context) error {
	b := u.rows.Finish()
	if b == nil {
		return nil
	}
	defer b.Release()
	_, err := u.out.Push(ctx, b)
	return err
}

// watermark returns the minimum over the open inputs.
func (u *union) watermark() int64 {
	t := int64(operators.EndOfTime)
	for i := range u.inputs {
		if in := &u.inputs[i]; !in.Closed {
			t = min(t, in.Watermark)
		}
	}
	return t
}

func (u *union) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	in := &u.inputs[port]
	switch s.Kind {
	case operators.Watermark:
		in.Watermark = max(in.Watermark, s.Time)
	case operators.Tick:
		k := operators.TickKind(s.Preview)
		in.Ticks[k] = max(in.Ticks[k], s.Time)
	case operators.Barrier:
		if in.Epoch++; in.Epoch > u.epoch+len(u.behind) {
			u.behind = append(u.behind, s)
		}
	case operators.Flush:
		if u.time < 0 || in.Latest == operators.NoTime {
			return u.out.Signal(ctx, s)
		}
		u.add(run{epoch: in.Epoch, time: in.Latest, flush: s})
	default:
		return u.out.Signal(ctx, s)
	}
	return u.out.Status, u.advance(ctx)
}

// advance emits what the progress of the inputs allows: rows, barriers, watermark, ticks.
func (u *union) advance(ctx context.Context) error {
	if err := u.align(ctx); err != nil {
		return err
	}
	if err := u.releaseTo(ctx, u.watermark()); err != nil {
		return err
	}
	// Rows of the next epoch wait in spite of the watermark, so it must not pass them.
	t := u.watermark()
	for i := range u.runs {
		t = min(t, u.runs[i].time)
	}
	if t > u.sent && t != operators.EndOfTime {
		u.sent = t
		if _, err := u.out.Signal(ctx, operators.Signal{Kind: operators.Watermark, Time: t}); err != nil {
			return err
		}
	}
	for k := range u.ticks {
		t := int64(operators.EndOfTime)
		for i := range u.inputs {
			if in := &u.inputs[i]; !in.Closed {
				t = min(t, in.Ticks[k])
			}
		}
		if t <= u.ticks[k] || t == operators.EndOfTime {
			continue
		}
		u.ticks[k] = t
		if _, err := u.out.Signal(ctx, operators.Signal{Kind: operators.Tick, Time: t, Preview: k == 1}); err != nil {
			return err
		}
	}
	return nil
}

// align forwards the barriers that every open input has reached, each after everything of
// its epoch.
func (u *union) align(ctx context.Context) error {
	for len(u.behind) > 0 {
		for i := range u.inputs {
			if in := &u.inputs[i]; !in.Closed && in.Epoch <= u.epoch {
				return nil
			}
		}
		if err := u.releaseTo(ctx, operators.EndOfTime); err != nil {
			return err
		}
		s := u.behind[0]
		u.behind = u.behind[1:]
		u.epoch++
		if _, err := u.out.Signal(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Close ends one input: the others no longer wait for it.
func (u *union) Close(ctx context.Context, port int) error {
	u.inputs[port].Closed = true
	open := false
	for i := range u.inputs {
		open = open || !u.inputs[i].Closed
	}
	if open {
		return u.advance(ctx)
	}
	for len(u.runs) > 0 { // of this epoch, then of epochs that no barrier closed
		u.epoch = u.runs[0].epoch
		if err := u.releaseTo(ctx, operators.EndOfTime); err != nil {
			return err
		}
	}
	return u.out.Close(ctx)
}

// runHeap is ordered by epoch, time and arrival.
type runHeap []run

func before(epoch int, time int64, seq uint64, than *run) bool {
	switch {
	case epoch != than.epoch:
		return epoch < than.epoch
	case time != than.time:
		return time < than.time
	}
	return seq < than.seq
}

// second returns the run after the first, or nil.
func (h runHeap) second() *run {
	switch {
	case len(h) < 2:
		return nil
	case len(h) == 2 || before(h[1].epoch, h[1].time, h[1].seq, &h[2]):
		return &h[1]
	}
	return &h[2]
}

func (h runHeap) Len() int { return len(h) }

func (h runHeap) Less(i, j int) bool { return before(h[i].epoch, h[i].time, h[i].seq, &h[j]) }

func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *runHeap) Push(x any) { *h = append(*h, x.(run)) }

func (h *runHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = run{}
	*h = old[:len(old)-1]
	return r
}
