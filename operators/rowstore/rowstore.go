package rowstore

import (
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Store keeps rows after the call that pushed them, by copying them into its own columns: a
// row is a slot. Slots are reused after free, strings are stored once, and the memory is
// bounded.
//
// Copying costs less than it saves: a retained batch would be pinned by its last row, and
// the memory it pins could not be counted.
type Store struct {
	Cols  []batch.Column // one entry for each slot; not bounded by MaxRows
	Tr    []*translator  // for PhysCode columns
	Slots int32          // in use or free
	avail []int32        // free slots
	Width int64          // bytes of a slot
	Any   int64          // memory referenced by the PhysAny columns

	Limit int64
	what  string // name of the operator, for the error
	hint  string
}

func New(s []types.Type, limit int64, what, hint string) *Store {
	st := &Store{Cols: make([]batch.Column, len(s)), Tr: make([]*translator, len(s)),
		Limit: limit, what: what, hint: hint}
	for i, t := range s {
		st.Cols[i].Type = t
		switch t.Physical() {
		case types.PhysBool:
			st.Width++
		case types.PhysInt, types.PhysFloat:
			st.Width += 8
		case types.PhysAny:
			st.Width += 16
		case types.PhysCode:
			st.Width += 4
			st.Tr[i] = newTranslator()
		}
	}
	return st
}

// Live returns the number of rows held.
func (s *Store) Live() int { return int(s.Slots) - len(s.avail) }

// Add copies rows of cols and appends their slots to slots. It returns an error if the
// store then exceeds its limit.
func (s *Store) Add(cols []batch.Column, rows []uint16, slots []int32) ([]int32, error) {
	first := len(slots)
	for range rows {
		slots = append(slots, s.alloc())
	}
	s.Set(cols, rows, slots[first:])
	return slots, s.Check()
}

func (s *Store) alloc() int32 {
	if n := len(s.avail); n > 0 {
		slot := s.avail[n-1]
		s.avail = s.avail[:n-1]
		return slot
	}
	s.Slots++
	return s.Slots - 1
}

// Set copies rows[i] of cols into slots[i].
func (s *Store) Set(cols []batch.Column, rows []uint16, slots []int32) {
	for i := range s.Cols {
		dst, src := &s.Cols[i], &cols[i]
		n := int(s.Slots)
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
				s.Any += anyBytes(dst.Any[slot])
			}
		case types.PhysCode:
			dst.Code = Extend(dst.Code, n)
			t := s.Tr[i]
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
	dst = Extend(dst, n)
	for i, r := range rows {
		dst[slots[i]] = src[r]
	}
	return dst
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

func (s *Store) dropAny(c *batch.Column, slots []int32) {
	for _, slot := range slots {
		if int(slot) < len(c.Any) && c.Any[slot] != nil {
			s.Any -= anyBytes(c.Any[slot])
			c.Any[slot] = nil
		}
	}
}

// Bytes returns the approximate memory in bytes.
func (s *Store) Bytes() int64 {
	n := int64(s.Slots)*s.Width + s.Any
	for _, t := range s.Tr {
		if t != nil {
			n += t.Bytes
		}
	}
	return n
}

func (s *Store) Check() error {
	if s.Bytes() > s.Limit {
		return s.TooLarge()
	}
	return nil
}

func (s *Store) TooLarge() error { return TooLarge(s.what, s.Limit, s.hint) }

// Gather appends the rows in slots to b, a batch of the store's first columns. Strings
// share the store's dictionary.
func (s *Store) Gather(b *batch.Batch, slots []int32) {
	for i := range b.Cols {
		AppendRows(&b.Cols[i], b.N, &s.Cols[i], slots, nil)
	}
	b.N += len(slots)
}

// Free frees slots.
func (s *Store) Free(slots []int32) {
	s.avail = append(s.avail, slots...)
	for i := range s.Cols {
		switch c := &s.Cols[i]; c.Type.Physical() {
		case types.PhysAny:
			s.dropAny(c, slots)
		case types.PhysCode:
			for _, slot := range slots {
				c.Code[slot] = 0
			}
		}
	}
	if s.Live() == 0 {
		s.Reset()
		return
	}
	for i, t := range s.Tr {
		if t != nil && t.to.Len() > MaxDict && t.to.Len() > 4*s.Live() {
			s.shrink(i)
		}
	}
}

// Release frees one slot.
func (s *Store) Release(slot int32) {
	one := [1]int32{slot}
	s.Free(one[:])
}

// Reset empties the store and keeps its memory, but not its strings.
func (s *Store) Reset() {
	s.Slots, s.avail, s.Any = 0, s.avail[:0], 0
	for i := range s.Cols {
		s.Cols[i].Reset()
		if t := s.Tr[i]; t != nil && t.to.Len() > MaxDict {
			s.Tr[i] = newTranslator()
		}
	}
}

// shrink replaces the dictionary of column i by one without the strings of freed rows.
func (s *Store) shrink(i int) {
	c, t := &s.Cols[i], newTranslator()
	t.source(c)
	for k, code := range c.Code {
		c.Code[k] = t.code(c.Values, code)
	}
	c.Dict, c.Values = t.to, t.to.Values()
	t.from, t.table = nil, nil
	s.Tr[i] = t
}
