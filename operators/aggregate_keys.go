package operators

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// groupKey is one GROUP BY expression. All group tables of an operator share
// it: a string has one code in all windows.
type groupKey struct {
	typ     types.Type
	program *expr.Program
	space   *codeSpace // of PhysCode and PhysAny keys

	col   *batch.Column // of the batch being pushed
	codes []uint32      // of the batch, in space, by physical row
}

func newGroupKey(e plan.Expr, in []types.Type) (*groupKey, error) {
	p, err := expr.Compile(e, in)
	if err != nil {
		return nil, err
	}
	k := &groupKey{typ: e.Type(), program: p}
	switch k.typ.Physical() {
	case types.PhysCode, types.PhysAny:
		k.space = newCodeSpace()
	}
	return k, nil
}

// eval computes the key for the rows of b that count.
func (k *groupKey) eval(b *batch.Batch) error {
	col, err := k.program.Eval(b)
	if err == nil {
		k.take(col, rowsOf(b))
	}
	return err
}

// take makes col the key of these rows.
func (k *groupKey) take(col *batch.Column, rows []uint16) {
	k.col = col
	if k.space != nil {
		k.codes = k.space.translate(col, rows)
	}
}

// hasNulls reports whether the key may be NULL in this batch.
func (k *groupKey) hasNulls() bool { return len(k.col.Nulls) > 0 && k.col.Nulls.Any() }

// groupTable numbers the keys of one window (or of the query) 0, 1, 2, ... in
// order of first appearance. A NULL is a key of its own; NaNs are equal, and
// so are 0 and -0.
type groupTable interface {
	// assign puts the group of row r into groups[r], for each of rows. Rows
	// that would need more than limit groups get noGroup; it returns how many.
	assign(rows []uint16, groups []uint32, limit int) (refused int)
	len() int
	// output makes dst, which is empty, key c of the groups.
	output(c int, groups []uint32, dst *batch.Column)
	// mark sets used[code] for the strings of key c that groups have.
	mark(c int, used []bool)
	// recode changes the code of key c's strings from i to codes[i].
	recode(c int, codes []uint32)
	// reset forgets all groups and keeps memory for as many again.
	reset()
}

// noGroup is the group of a row that got none. As 1 + group is what tables
// store, it is also what follows from the 0 of "no entry".
const noGroup = math.MaxUint32

// maxKeys is how many NULL bits the key of a rowTable holds.
const maxKeys = 64

// keyScratch is what tables need while they look at one batch. The tables of
// an operator share it.
type keyScratch struct {
	row, part [batch.MaxRows]uint64
	rows      []uint64
}

// newGroupTable chooses the cheapest table that the keys' types allow.
func newGroupTable(keys []*groupKey, scratch *keyScratch) groupTable {
	width := 0
	for _, k := range keys {
		width += packedBits(k.typ)
	}
	switch {
	case len(keys) == 0:
		return oneGroup{}
	case len(keys) == 1 && keys[0].space != nil:
		return &codeTable{key: keys[0]}
	case len(keys) == 1 || width <= 64:
		return newWordTable(keys, scratch)
	}
	return newRowTable(keys, scratch)
}

// oneGroup is the table of a query without GROUP BY: its group is there before
// the first row.
type oneGroup struct{}

func (oneGroup) assign(rows []uint16, groups []uint32, _ int) int {
	for _, r := range rows {
		groups[r] = 0
	}
	return 0
}
func (oneGroup) len() int                            { return 1 }
func (oneGroup) output(int, []uint32, *batch.Column) {}
func (oneGroup) mark(int, []bool)                    {}
func (oneGroup) recode(int, []uint32)                {}
func (oneGroup) reset()                              {}

// packedBits is how many bits a key takes when several are packed into one
// word, where 0 is NULL and other values count from 1. More than 64 if it
// cannot be packed.
func packedBits(t types.Type) int {
	switch t.Physical() {
	case types.PhysCode, types.PhysAny:
		return 32
	case types.PhysBool:
		return 2
	}
	return 65
}

// words puts the key at each of rows, as a number, at dst[stride*row]. What it
// puts for a NULL means nothing.
func (k *groupKey) words(rows []uint16, dst []uint64, stride int) {
	switch k.typ.Physical() {
	case types.PhysInt:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.col.Int[r])
		}
	case types.PhysFloat:
		for _, r := range rows {
			dst[int(r)*stride] = canonicalBits(k.col.Float[r])
		}
	case types.PhysBool:
		for _, r := range rows {
			dst[int(r)*stride] = 0
			if k.col.Bool[r] {
				dst[int(r)*stride] = 1
			}
		}
	default:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.codes[r])
		}
	}
}

// output appends the key that is word w to dst, which has n rows.
func (k *groupKey) output(n int, w uint64, null bool, dst *batch.Column) {
	if null {
		dst.Nulls.Set(n)
		w = 0
	}
	switch k.typ.Physical() {
	case types.PhysInt:
		dst.Int = append(dst.Int, int64(w))
	case types.PhysFloat:
		dst.Float = append(dst.Float, math.Float64frombits(w))
	case types.PhysBool:
		dst.Bool = append(dst.Bool, w == 1)
	default:
		c := uint32(w)
		if null {
			c = noCode
		}
		k.space.output(c, dst)
	}
}
