package expr

import (
	"slices"

	"endoscope/operators/batch"
)

// rows are the physical rows that a step processes: sel, ascending, or, if sel is nil,
// 0..n-1. n is the number of physical rows in every column.
type rows struct {
	sel []uint16
	n   int
}

// batchRows returns the selected rows of b. A selection of all rows becomes dense, for
// which kernels have a faster loop.
func batchRows(b *batch.Batch) rows {
	if len(b.Sel) == b.N {
		return rows{n: b.N}
	}
	return rows{sel: b.Sel, n: b.N}
}

// subset returns the subset sel, not empty, of r.
func (r rows) subset(sel []uint16) rows {
	if len(sel) == r.n {
		return rows{n: r.n}
	}
	return rows{sel: sel, n: r.n}
}

func (r rows) len() int {
	if r.sel == nil {
		return r.n
	}
	return len(r.sel)
}

func (r rows) at(k int) int {
	if r.sel == nil {
		return k
	}
	return int(r.sel[k])
}

// each calls f for every row. It is small enough to be inlined together with a function
// literal, so kernels written with it compile to two plain loops.
func (r rows) each(f func(i int)) {
	if r.sel == nil {
		for i := range r.n {
			f(i)
		}
		return
	}
	for _, i := range r.sel {
		f(int(i))
	}
}

// appendTo appends all rows to dst.
func (r rows) appendTo(dst []uint16) []uint16 {
	if r.sel != nil {
		return append(dst, r.sel...)
	}
	k := len(dst)
	dst = room(dst, r.n)
	for i := range r.n {
		dst[k+i] = uint16(i)
	}
	return dst
}

// room extends dst by n entries that a kernel fills and then cuts.
func room(dst []uint16, n int) []uint16 {
	return slices.Grow(dst, n)[:len(dst)+n]
}

// marks is a set of physical rows. Differences and unions of selections use it because,
// unlike a merge, it has no branch that random rows mispredict.
type marks []bool

// only sets the set to sel, among n physical rows.
func (m *marks) only(sel []uint16, n int) {
	*m = sized(*m, n)
	clear(*m)
	m.add(sel)
}

func (m marks) add(sel []uint16) {
	for _, i := range sel {
		m[i] = true
	}
}

// dropNulls removes the rows of dst[from:] that are set in nulls.
func dropNulls(dst []uint16, from int, nulls batch.Bitmap) []uint16 {
	if !nulls.Any() {
		return dst
	}
	k := from
	for _, i := range dst[from:] {
		dst[k] = i
		if !nulls.Get(int(i)) {
			k++
		}
	}
	return dst[:k]
}

// keepNulls removes the rows of dst[from:] that are not set in nulls.
func keepNulls(dst []uint16, from int, nulls batch.Bitmap) []uint16 {
	k := from
	for _, i := range dst[from:] {
		dst[k] = i
		if nulls.Get(int(i)) {
			k++
		}
	}
	return dst[:k]
}
