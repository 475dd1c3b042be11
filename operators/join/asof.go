package join

import (
	"cmp"
	"context"
	"slices"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// asOfJoin joins each left row with the latest right row that is not later. It processes
// both sides together in order of time, up to the smaller of their watermarks; of right
// rows with equal times the last to arrive is used.
//
// A right row is kept until it is replaced by a later one: if the condition compares only
// keys, the next one with an equal key. Under other conditions any row may still match, and
// only the memory limit bounds them.
type asOfJoin struct {
	joinBase
	pending  [2][]int32 // slots not processed, in order of arrival
	sorted   [2]bool    // they are in order of time
	hashes   [2][]uint64
	onlyKeys bool    // the condition compares only keys
	inTime   []dated // right rows that can be found, in order of time
	born     []uint64
	births   uint64
	replaced []int32 // right rows that are no longer found
	late     []int32 // scratch of due
}

// dated is a right row, unless its slot has been reused since.
type dated struct {
	slot int32
	born uint64
}

func newAsOfJoin(b joinBase) *asOfJoin {
	j := &asOfJoin{joinBase: b, sorted: [2]bool{true, true}}
	j.onlyKeys = b.node.On == nil || len(plan.Conjuncts(b.node.On)) == len(b.sides[left].keys)
	j.kind = j
	return j
}

func (j *asOfJoin) add(ctx context.Context, port int, _ *batch.Batch, _, kept []uint16, slots []int32) error {
	s := &j.sides[port]
	j.hashes[port] = rowstore.Extend(j.hashes[port], int(s.rows.Slots))
	times := s.times()
	for i, slot := range slots {
		j.hashes[port][slot] = s.hash.hashes[kept[i]]
		if n := len(j.pending[port]); n > 0 && times[j.pending[port][n-1]] > times[slot] {
			j.sorted[port] = false
		}
		j.pending[port] = append(j.pending[port], slot)
	}
	return j.bound(ctx)
}

// advance processes the rows earlier than both watermarks.
func (j *asOfJoin) advance(ctx context.Context) error {
	to := min(j.sides[left].Watermark, j.sides[right].Watermark)
	ls, rs := j.due(left, to), j.due(right, to)
	lt, rt := j.sides[left].times(), j.sides[right].times()
	done := 0
	for _, l := range ls {
		n := 0
		for n < len(rs) && rt[rs[n]] <= lt[l] {
			n++
		}
		for _, r := range rs[:n] {
			j.admit(r)
		}
		rs, done = rs[n:], done+n
		if r := j.sides[right].index.first(j.hashes[left][l]); r >= 0 {
			j.pairs[left], j.pairs[right] = append(j.pairs[left], l), append(j.pairs[right], r)
			if len(j.pairs[left]) == batch.MaxRows {
				if err := j.decide(ctx); err != nil {
					return err
				}
			}
		}
	}
	if err := j.decide(ctx); err != nil {
		return err
	}
	for _, r := range rs {
		j.admit(r)
	}
	j.sides[left].rows.Free(ls)
	j.removePending(left, len(ls))
	j.removePending(right, done+len(rs))
	if j.sides[left].Closed && len(j.pending[left]) == 0 { // no row of the left side can come any more
		j.sides[right].rows.Free(j.pending[right])
		j.pending[right] = j.pending[right][:0]
	}
	return j.forwardWatermark(ctx, to)
}

// due returns the rows earlier than t, in order of time and arrival. They remain the first
// of the pending rows.
func (j *asOfJoin) due(port int, t int64) []int32 {
	list, times := j.pending[port], j.sides[port].times()
	if !j.sorted[port] {
		j.late = inOrder(list, j.late[:0], times)
		j.sorted[port] = true
	}
	n, _ := slices.BinarySearchFunc(list, t, func(slot int32, t int64) int {
		if t == operators.EndOfTime || times[slot] < t {
			return -1
		}
		return 1
	})
	return list[:n]
}

// inOrder sorts slots by time and arrival. The few that are out of order are sorted in late
// and merged into the others.
func inOrder(slots, late []int32, times []int64) []int32 {
	n, latest := 0, int64(operators.NoTime)
	for _, slot := range slots {
		if times[slot] < latest {
			late = append(late, slot)
			continue
		}
		slots[n], latest = slot, times[slot]
		n++
	}
	slices.SortStableFunc(late, func(a, b int32) int { return cmp.Compare(times[a], times[b]) })
	// Among equal times, the one in late arrived later.
	for k, l := len(slots), len(late); l > 0; {
		k--
		if n > 0 && times[slots[n-1]] > times[late[l-1]] {
			n--
			slots[k] = slots[n]
		} else {
			l--
			slots[k] = late[l]
		}
	}
	return late
}

// removePending removes the first n pending rows. The rest is moved only if there are at most as
// many, so that removing a few of many costs no more than those few.
func (j *asOfJoin) removePending(port, n int) {
	list := j.pending[port]
	if rest := list[n:]; len(rest) <= n {
		j.pending[port] = append(list[:0], rest...)
	} else {
		j.pending[port] = rest
	}
}

// admit makes a right row the latest of its key.
func (j *asOfJoin) admit(slot int32) {
	s := &j.sides[right]
	if j.onlyKeys {
		for o := s.index.first(j.hashes[right][slot]); o >= 0; o = s.index.after(o) {
			if s.sameKey(o, slot) {
				s.index.remove(o)
				j.born[o] = 0
				// A proposed pair may still refer to it, and continue from it to older
				// rows.
				j.replaced = append(j.replaced, o)
				break
			}
		}
	}
	s.index.insert(slot, j.hashes[right][slot])
	j.births++
	j.born = rowstore.Extend(j.born, int(slot)+1)
	j.born[slot] = j.births
	j.inTime = append(j.inTime, dated{slot, j.births})
	if len(j.inTime) > 64 && len(j.inTime) > 2*s.index.n {
		j.inTime = slices.DeleteFunc(j.inTime, func(d dated) bool { return j.born[d.slot] != d.born })
	}
}

// sameKey compares the keys of two rows of one side.
func (s *joinSide) sameKey(a, b int32) bool {
	for i := s.n; i < s.n+len(s.keys); i++ {
		switch c := &s.rows.Cols[i]; c.Type.Physical() {
		case types.PhysBool:
			if c.Bool[a] != c.Bool[b] {
				return false
			}
		case types.PhysFloat:
			if rowstore.CanonicalBits(c.Float[a]) != rowstore.CanonicalBits(c.Float[b]) {
				return false
			}
		case types.PhysCode:
			if c.Code[a] != c.Code[b] {
				return false
			}
		default:
			if c.Int[a] != c.Int[b] {
				return false
			}
		}
	}
	return true
}

// decide resolves the proposed pairs: if the condition does not hold, the next older right
// row is tried, until there is none.
func (j *asOfJoin) decide(ctx context.Context) error {
	for len(j.pairs[left]) > 0 {
		ls, rs := slices.Clone(j.pairs[left]), slices.Clone(j.pairs[right])
		if err := j.choose(); err != nil {
			return err
		}
		if err := j.emit(ctx); err != nil {
			return err
		}
		if j.cond == nil {
			j.sel = append(j.sel[:0], batch.AllRows[:len(ls)]...)
		}
		held := j.sel
		j.pairs[left], j.pairs[right] = j.pairs[left][:0], j.pairs[right][:0]
		for i := range ls {
			if len(held) > 0 && int(held[0]) == i {
				held = held[1:]
				continue
			}
			if r := j.sides[right].index.after(rs[i]); r >= 0 {
				j.pairs[left], j.pairs[right] = append(j.pairs[left], ls[i]), append(j.pairs[right], r)
			}
		}
	}
	j.sides[right].rows.Free(j.replaced)
	j.replaced = j.replaced[:0]
	return nil
}

// bound drops the oldest rows while the sides exceed the memory limit.
func (j *asOfJoin) bound(ctx context.Context) error {
	n := 0
	var gone [2]int // number of dropped pending rows per side
	for j.sides[left].bytes()+j.sides[right].bytes() > j.limit {
		ls, rs := j.pending[left][gone[left]:], j.pending[right][gone[right]:]
		if len(j.inTime)+len(ls)+len(rs) == 0 {
			break
		}
		switch {
		case len(j.inTime) > 0:
			d := j.inTime[0]
			j.inTime = j.inTime[1:]
			if j.born[d.slot] != d.born {
				continue
			}
			j.sides[right].index.remove(d.slot)
			j.born[d.slot] = 0
			j.sides[right].rows.Release(d.slot)
		case len(rs) > len(ls):
			j.sides[right].rows.Release(rs[0])
			gone[right]++
		default:
			j.sides[left].rows.Release(ls[0])
			gone[left]++
		}
		n++
	}
	for port, k := range gone {
		j.removePending(port, k)
	}
	return j.lost(ctx, "join memory full", n)
}
