package sort

import (
	"cmp"
	"encoding/binary"
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// NULL is greater than everything, NaN greater than every other number: so NULLs
// are last in ASC and first in DESC.

// prefixes appends, for each of rows, a number that orders like the first key
// where it differs.
func (s *sorter) prefixes(rows []uint16, dst []uint64) []uint64 {
	if len(s.keys) == 0 {
		return append(dst, make([]uint64, len(rows))...)
	}
	k := s.keys[0]
	c := &s.cols[k.col]
	first := len(dst)
	switch c.Type.Physical() {
	case types.PhysInt:
		flip := uint64(1 << 63)
		if c.Type.Unsigned() {
			flip = 0
		}
		for _, r := range rows {
			dst = append(dst, uint64(c.Int[r])^flip)
		}
	case types.PhysFloat:
		for _, r := range rows {
			dst = append(dst, floatPrefix(c.Float[r]))
		}
	case types.PhysCode:
		for _, r := range rows {
			var p uint64
			if !c.Nulls.Get(int(r)) {
				p = stringPrefix(c.Values[c.Code[r]])
			}
			dst = append(dst, p)
		}
	case types.PhysBool:
		for _, r := range rows {
			var p uint64
			if c.Bool[r] {
				p = 1
			}
			dst = append(dst, p)
		}
	default:
		dst = append(dst, make([]uint64, len(rows))...)
	}
	for i, r := range rows {
		p := &dst[first+i]
		if c.Nulls.Get(int(r)) {
			*p = math.MaxUint64
		}
		if k.desc {
			*p = ^*p
		}
	}
	return dst
}

// floatPrefix orders like compareFloats.
func floatPrefix(f float64) uint64 {
	b := rowstore.CanonicalBits(f)
	switch {
	case f != f:
		return math.MaxUint64
	case b>>63 == 1:
		return ^b
	}
	return b | 1<<63
}

// stringPrefix returns the first eight bytes, in byte order. A shorter string is
// padded with zeros, so equal prefixes do not imply equal strings.
func stringPrefix(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}

// compareKeys compares row i of columns a with row j of columns b.
func compareKeys(keys []sortKey, a []batch.Column, i int, b []batch.Column, j int) int {
	for _, k := range keys {
		c := compareCells(&a[k.col], i, &b[k.col], j)
		if c == 0 {
			continue
		}
		if k.desc {
			return -c
		}
		return c
	}
	return 0
}

func compareCells(a *batch.Column, i int, b *batch.Column, j int) int {
	an, bn := a.Nulls.Get(i), b.Nulls.Get(j)
	switch {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	}
	switch a.Type.Physical() {
	case types.PhysInt:
		return cmp.Compare(a.Type.Key(a.Int[i]), b.Type.Key(b.Int[j]))
	case types.PhysFloat:
		return CompareFloats(a.Float[i], b.Float[j])
	case types.PhysCode:
		return cmp.Compare(a.Values[a.Code[i]], b.Values[b.Code[j]])
	case types.PhysBool:
		switch {
		case a.Bool[i] == b.Bool[j]:
			return 0
		case b.Bool[j]:
			return -1
		}
		return 1
	case types.PhysAny:
		return cmp.Compare(rowstore.AnyText(a.Any[i]), rowstore.AnyText(b.Any[j]))
	}
	return 0
}

// CompareFloats is cmp.Compare, but NaN sorts last.
func CompareFloats(a, b float64) int {
	if a != a || b != b {
		return -cmp.Compare(a, b)
	}
	return cmp.Compare(a, b)
}
