package operators

import (
	"fmt"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// rowStore keeps rows beyond the call in which they came, by copying them into
// columns of its own: a row is a slot. Slots are used again after free, strings
// are kept once, and what is held is bounded.
//
// Copying costs less than it saves: a retained batch would be pinned by its
// last row, and the memory it pins could not be counted.
type rowStore struct {
	cols  []batch.Column // one entry for each slot; not bounded by MaxRows
	tr    []*translator  // for PhysCode columns
	slots int32          // in use or free
	avail []int32        // free slots
	width int64          // bytes of a slot
	any   int64          // bytes behind the PhysAny columns

	limit int64
	what  string // who holds the rows, for the error
	hint  string
}

func newRowStore(s []types.Type, limit int64, what, hint string) *rowStore {
	st := &rowStore{cols: make([]batch.Column, len(s)), tr: make([]*translator, len(s)),
		limit: limit, what: what, hint: hint}
	for i, t := range s {
		st.cols[i].Type = t
		switch t.Physical() {
		case types.PhysBool:
			st.width++
		case types.PhysInt, types.PhysFloat:
			st.width += 8
		case types.PhysAny:
			st.width += 16
		case types.PhysCode:
			st.width += 4
			st.tr[i] = newTranslator()
		}
	}
	return st
}

// live is the number of rows held.
func (s *rowStore) live() int { return int(s.slots) - len(s.avail) }

// add copies rows of cols and appends their slots to slots. It fails when the
// store then holds more than its limit.
func (s *rowStore) add(cols []batch.Column, rows []uint16, slots []int32) ([]int32, error) {
	first := len(slots)
	for range rows {
		slots = append(slots, s.alloc())
	}
	s.set(cols, rows, slots[first:])
	return slots, s.check()
}

func (s *rowStore) alloc() int32 {
	if n := len(s.avail); n > 0 {
		slot := s.avail[n-1]
		s.avail = s.avail[:n-1]
		return slot
	}
	s.slots++
	return s.slots - 1
}

// set copies rows[i] of cols into slots[i].
func (s *rowStore) set(cols []batch.Column, rows []uint16, slots []int32) {
	for i := range s.cols {
		dst, src := &s.cols[i], &cols[i]
		n := int(s.slots)
		switch dst.Type.Physical() {
		case types.PhysBool:
			dst.Bool = scatter(dst.Bool, n, src.Bool, rows, slots)
		case types.PhysInt:
			dst.Int = scatter(dst.Int, n, src.Int, rows, slots)
		case types.PhysFloat:
			dst.Float = scatter(dst.Float, n, src.Float, rows, slots)
		case types.PhysAny:
			s.dropAny(dst, slots)
			dst.Any = scatter(dst.Any, n, src.Any, rows, slots)
			for _, slot := range slots {
				s.any += anyBytes(dst.Any[slot])
			}
		case types.PhysCode:
			dst.Code = extend(dst.Code, n)
			t := s.tr[i]
			t.source(src)
			for k, r := range rows {
				dst.Code[slots[k]] = t.code(src.Values, src.Code[r])
			}
			dst.Dict, dst.Values = t.to, t.to.Values()
		}
		setNulls(&dst.Nulls, src.Nulls, rows, slots)
	}
}

func scatter[T any](dst []T, n int, src []T, rows []uint16, slots []int32) []T {
	dst = extend(dst, n)
	for i, r := range rows {
		dst[slots[i]] = src[r]
	}
	return dst
}

// extend makes v at least n entries long; new ones are zero.
func extend[T any](v []T, n int) []T {
	if k := n - len(v); k > 0 {
		old := len(v)
		v = slices.Grow(v, k)[:n]
		clear(v[old:])
	}
	return v
}

func setNulls(dst *batch.Bitmap, src batch.Bitmap, rows []uint16, slots []int32) {
	if len(src) == 0 && len(*dst) == 0 {
		return
	}
	for i, r := range rows {
		slot := int(slots[i])
		if src.Get(int(r)) {
			dst.Set(slot)
		} else if w := slot >> 6; w < len(*dst) {
			(*dst)[w] &^= 1 << (uint(slot) & 63)
		}
	}
}

func (s *rowStore) dropAny(c *batch.Column, slots []int32) {
	for _, slot := range slots {
		if int(slot) < len(c.Any) && c.Any[slot] != nil {
			s.any -= anyBytes(c.Any[slot])
			c.Any[slot] = nil
		}
	}
}

// bytes is about the memory held.
func (s *rowStore) bytes() int64 {
	n := int64(s.slots)*s.width + s.any
	for _, t := range s.tr {
		if t != nil {
			n += t.bytes
		}
	}
	return n
}

func (s *rowStore) check() error {
	if s.bytes() > s.limit {
		return s.tooLarge()
	}
	return nil
}

func (s *rowStore) tooLarge() error { return tooLarge(s.what, s.limit, s.hint) }

func tooLarge(what string, limit int64, hint string) error {
	return &plan.Error{Msg: fmt.Sprintf("%s holds more than %s of rows", what, formatBytes(limit)), Hint: hint, Start: -1}
}

func formatBytes(n int64) string {
	for _, u := range []string{"bytes", "KiB", "MiB"} {
		if n < 10*1024 {
			return fmt.Sprintf("%d %s", n, u)
		}
		n /= 1024
	}
	return fmt.Sprintf("%d GiB", n)
}

// gather appends the rows in slots to b, a batch of the store's first columns.
// Strings share the store's dictionary.
func (s *rowStore) gather(b *batch.Batch, slots []int32) {
	for i := range b.Cols {
		appendRows(&b.Cols[i], b.N, &s.cols[i], slots, nil)
	}
	b.N += len(slots)
}

// free gives slots back.
func (s *rowStore) free(slots []int32) {
	s.avail = append(s.avail, slots...)
	for i := range s.cols {
		switch c := &s.cols[i]; c.Type.Physical() {
		case types.PhysAny:
			s.dropAny(c, slots)
		case types.PhysCode:
			for _, slot := range slots {
				c.Code[slot] = 0
			}
		}
	}
	if s.live() == 0 {
		s.reset()
		return
	}
	for i, t := range s.tr {
		if t != nil && t.to.Len() > maxDict && t.to.Len() > 4*s.live() {
			s.shrink(i)
		}
	}
}

// release gives one slot back.
func (s *rowStore) release(slot int32) {
	one := [1]int32{slot}
	s.free(one[:])
}

// reset empties the store and keeps its memory, but not its strings.
func (s *rowStore) reset() {
	s.slots, s.avail, s.any = 0, s.avail[:0], 0
	for i := range s.cols {
		s.cols[i].Reset()
		if t := s.tr[i]; t != nil && t.to.Len() > maxDict {
			s.tr[i] = newTranslator()
		}
	}
}

// shrink gives column i a dictionary without the strings of rows long gone.
func (s *rowStore) shrink(i int) {
	c, t := &s.cols[i], newTranslator()
	t.source(c)
	for k, code := range c.Code {
		c.Code[k] = t.code(c.Values, code)
	}
	c.Dict, c.Values = t.to, t.to.Values()
	t.from, t.table = nil, nil
	s.tr[i] = t
}
