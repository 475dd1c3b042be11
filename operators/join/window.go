package join

import (
	"context"
	"time"

	"github.com/tidwall/btree"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// windowJoin pairs rows that are near in time: the right row's time less the left one's is
// in [lo, hi]. A pair is emitted when its later row arrives, so it looks both ways and
// order does not matter.
//
// A side's rows are grouped in panes, intervals of time. A row is dropped when the other
// side's watermark shows that no partner can come any more: pane by pane, which keeps rows
// up to one pane too long. If the condition has no equality, the panes in reach are
// searched.
//
// An anti join emits no pairs, and drops a left row that has had a partner: not at once,
// because its pane lists it, but when half of the pane's rows have had one. That costs
// constant time per row and keeps at most twice the necessary rows.
type windowJoin struct {
	joinBase
	lo, hi  int64
	size    int64 // of a pane
	panes   [2]btree.Map[int64, []int32]
	keyed   bool
	outer   bool          // left rows without a partner are emitted, too
	matched []bool        // by left slot
	hit     []int32       // an anti join's left slots that got their first partner in this call
	gone    map[int64]int // of an anti join, by pane: number of its rows that have had a partner
	idle    [][]int32
	looks   int // rows visited since the last check whether the query has ended
}

// How finely rows are dropped. If only later rows are partners (FOLLOWED BY), the right
// side's rows are useless once the left side has passed them, whatever the window: only one
// pane of them is kept.
const (
	panesPerWindow = 16
	longestPane    = int64(time.Second)
)

func newWindowJoin(b joinBase) *windowJoin {
	j := &windowJoin{joinBase: b, outer: b.node.Kind == plan.LeftWindowJoin, keyed: len(b.sides[left].keys) > 0,
		gone: map[int64]int{}}
	j.lo, j.hi = b.node.Band()
	j.size = min((j.hi-j.lo)/panesPerWindow, longestPane) + 1
	j.kind = j
	return j
}

func (j *windowJoin) add(ctx context.Context, port int, b *batch.Batch, rows, kept []uint16, slots []int32) error {
	s := &j.sides[port]
	if j.outer && port == left {
		if err := j.withoutKey(ctx, b, rows, kept); err != nil {
			return err
		}
		j.matched = rowstore.Extend(j.matched, int(s.rows.Slots))
		for _, slot := range slots {
			j.matched[slot] = false
		}
	}
	if j.keyed {
		s.chain(slots, kept)
	}
	j.file(port, slots)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, slot := range slots {
		if j.out.Status != operators.More {
			break
		}
		if err := j.search(ctx, port, slot); err != nil {
			return err
		}
	}
	if err := j.settle(ctx, j.note); err != nil {
		return err
	}
	j.dropMatched()
	return j.bound(ctx)
}

// withoutKey emits left rows whose key is NULL, which equals nothing.
func (j *windowJoin) withoutKey(ctx context.Context, b *batch.Batch, rows, kept []uint16) error {
	if len(kept) == len(rows) {
		return nil
	}
	var alone []uint16
	for _, r := range rows {
		if len(kept) > 0 && kept[0] == r {
			kept = kept[1:]
			continue
		}
		alone = append(alone, r)
	}
	out := j.wide.Get()
	defer out.Release()
	for c := range b.Cols {
		rowstore.AppendRows(&out.Cols[c], 0, &b.Cols[c], alone, nil)
	}
	return j.pushAlone(ctx, out, len(alone))
}

// pushAlone pushes n left rows with NULLs for the right columns.
func (j *windowJoin) pushAlone(ctx context.Context, b *batch.Batch, n int) error {
	for c := j.sides[right].from; c < len(b.Cols); c++ {
		appendNulls(&b.Cols[c], n)
	}
	b.N = n
	_, err := j.out.Push(ctx, b)
	return err
}

// file records the panes of new rows; consecutive rows usually share one.
func (j *windowJoin) file(port int, slots []int32) {
	times := j.sides[port].times()
	for len(slots) > 0 {
		p := operators.Floor(times[slots[0]], j.size)
		n := 1
		for n < len(slots) && uint64(times[slots[n]]-p) < uint64(j.size) {
			n++
		}
		list, ok := j.panes[port].Get(p)
		if k := len(j.idle); !ok && k > 0 {
			list, j.idle = j.idle[k-1], j.idle[:k-1]
		}
		j.panes[port].Set(p, append(list, slots[:n]...))
		slots = slots[n:]
	}
}

// looksPerCheck is the number of rows visited without a proposal between two checks whether
// the query has ended: about 10 µs.
const looksPerCheck = 1 << 13

// search proposes the partners of a new row.
func (j *windowJoin) search(ctx context.Context, port int, slot int32) error {
	if j.looks >= looksPerCheck { // it may have visited many rows and proposed none
		j.looks = 0
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	other := &j.sides[1-port]
	t := j.sides[port].times()[slot]
	from, to := t+j.lo, t+j.hi // range of the partners
	if port == right {
		from, to = t-j.hi, t-j.lo
	}
	if j.keyed {
		times := other.times()
		for o := other.index.first(j.sides[port].index.hash[slot]); o >= 0; o = other.index.after(o) {
			j.looks++
			if at := times[o]; at >= from && at <= to {
				if err := j.pair(ctx, port, slot, o); err != nil || j.out.Status != operators.More {
					return err
				}
			}
		}
		return nil
	}
	var err error
	j.panes[1-port].Ascend(operators.Floor(from, j.size), func(pane int64, slots []int32) bool {
		if pane > to {
			return false
		}
		times := other.times()
		j.looks += len(slots)
		for _, o := range slots {
			if at := times[o]; at >= from && at <= to {
				if err = j.pair(ctx, port, slot, o); err != nil || j.out.Status != operators.More {
					return false
				}
			}
		}
		return true
	})
	return err
}

func (j *windowJoin) pair(ctx context.Context, port int, own, other int32) error {
	if port == right {
		own, other = other, own
	}
	if j.node.Anti && j.matched[own] {
		return nil
	}
	return j.propose(ctx, own, other, j.note)
}

// note records which left rows have had a partner.
func (j *windowJoin) note(pairs [2][]int32) {
	if !j.outer {
		return
	}
	for _, slot := range pairs[left] {
		if j.node.Anti && !j.matched[slot] {
			j.hit = append(j.hit, slot)
		}
		j.matched[slot] = true
	}
}

// dropMatched drops an anti join's left rows that have had a partner, in panes where they are at
// least half; in other panes they are only removed from the index.
func (j *windowJoin) dropMatched() {
	if len(j.hit) == 0 {
		return
	}
	s := &j.sides[left]
	times := s.times()
	for _, slot := range j.hit {
		s.index.remove(slot)
		j.gone[operators.Floor(times[slot], j.size)]++
	}
	for pane, n := range j.gone {
		list, _ := j.panes[left].Get(pane)
		if 2*n < len(list) {
			continue
		}
		delete(j.gone, pane)
		kept := list[:0]
		j.hit = j.hit[:0]
		for _, slot := range list {
			if j.matched[slot] {
				j.hit = append(j.hit, slot)
			} else {
				kept = append(kept, slot)
			}
		}
		s.rows.Free(j.hit)
		if len(kept) > 0 {
			j.panes[left].Set(pane, kept)
			continue
		}
		j.panes[left].Delete(pane)
		j.rest(kept)
	}
	j.hit = j.hit[:0]
}

// bound drops the oldest rows while the sides exceed the memory limit. Their later partners
// are lost, which is reported.
func (j *windowJoin) bound(ctx context.Context) error {
	for j.sides[left].bytes()+j.sides[right].bytes() > j.limit {
		port := left
		if l, _, ok := j.panes[left].Min(); !ok {
			port = right
		} else if r, _, ok := j.panes[right].Min(); ok && r < l {
			port = right
		}
		pane, slots, ok := j.panes[port].PopMin()
		if !ok {
			return nil
		}
		n := len(slots)
		if port == left {
			n -= j.gone[pane]
			delete(j.gone, pane)
		}
		j.forget(port, slots)
		if err := j.lost(ctx, "join memory full", n); err != nil {
			return err
		}
	}
	return nil
}

func (j *windowJoin) forget(port int, slots []int32) {
	s := &j.sides[port]
	for _, slot := range slots {
		s.index.remove(slot)
	}
	s.rows.Free(slots)
	j.rest(slots)
}

// rest keeps a pane's list for reuse.
func (j *windowJoin) rest(list []int32) {
	if len(j.idle) < maxIdleLists {
		j.idle = append(j.idle, list[:0])
	}
}

// advance drops rows that can find no partner any more, emits left rows that found none,
// and forwards the watermark that follows from the inputs' watermarks.
func (j *windowJoin) advance(ctx context.Context) error {
	oldest := j.sides[right].minus(j.hi) // of the left rows still needed
	if err := j.expire(ctx, left, oldest); err != nil {
		return err
	}
	if err := j.expire(ctx, right, j.sides[left].minus(-j.lo)); err != nil {
		return err
	}
	if oldest != operators.NoTime && oldest != operators.EndOfTime {
		oldest = operators.Floor(oldest, j.size)
	}
	return j.forwardWatermark(ctx, min(j.sides[left].Watermark, oldest))
}

// expire drops the panes that end at t or before.
func (j *windowJoin) expire(ctx context.Context, port int, t int64) error {
	for {
		pane, slots, ok := j.panes[port].Min()
		if !ok || pane > t-j.size && t != operators.EndOfTime {
			return nil
		}
		if t == operators.NoTime {
			return nil
		}
		j.panes[port].PopMin()
		if j.outer && port == left {
			delete(j.gone, pane)
			if err := j.emitUnmatched(ctx, slots); err != nil {
				return err
			}
		}
		j.forget(port, slots)
	}
}

// emitUnmatched emits the left rows that never had a partner.
func (j *windowJoin) emitUnmatched(ctx context.Context, slots []int32) error {
	s := &j.sides[left]
	for len(slots) > 0 {
		n := min(len(slots), batch.MaxRows)
		alone := j.pairs[left][:0]
		for _, slot := range slots[:n] {
			if !j.matched[slot] {
				alone = append(alone, slot)
			}
		}
		slots = slots[n:]
		if len(alone) == 0 {
			continue
		}
		b := j.wide.Get()
		for c := range s.n {
			rowstore.AppendRows(&b.Cols[c], 0, &s.rows.Cols[c], alone, nil)
		}
		err := j.pushAlone(ctx, b, len(alone))
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// appendNulls appends n NULLs to an empty column.
func appendNulls(c *batch.Column, n int) {
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool = rowstore.Extend(c.Bool, n)
	case types.PhysFloat:
		c.Float = rowstore.Extend(c.Float, n)
	case types.PhysAny:
		c.Any = rowstore.Extend(c.Any, n)
	case types.PhysCode:
		empty := c.Dict.Code("")
		for range n {
			c.Code = append(c.Code, empty)
		}
		c.Values = c.Dict.Values()
	default:
		c.Int = rowstore.Extend(c.Int, n)
	}
	for i := range n {
		c.Nulls.Set(i)
	}
}

// maxIdleLists is the largest number of lists kept for reuse.
const maxIdleLists = 64
