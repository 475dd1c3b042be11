package grouping

import (
	"math"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Key is one GROUP BY expression. All group tables of an operator share
// it: a string has one code in all windows.
type Key struct {
	Typ     types.Type
	program *expr.Program
	Space   *Codes // of PhysCode and PhysAny keys

	Col   *batch.Column // of the batch being pushed
	Codes []uint32      // of the batch, in space, by physical row
}

func NewKey(e plan.Expr, in []types.Type) (*Key, error) {
	p, err := expr.Compile(e, in)
	if err != nil {
		return nil, err
	}
	k := &Key{Typ: e.Type(), program: p}
	switch k.Typ.Physical() {
	case types.PhysCode, types.PhysAny:
		k.Space = NewCodes()
	}
	return k, nil
}

// Eval computes the key for the rows of b that count.
func (k *Key) Eval(b *batch.Batch) error {
	col, err := k.program.Eval(b)
	if err == nil {
		k.Load(col, batch.RowsOf(b))
	}
	return err
}

// Load sets the key of these rows to col.
func (k *Key) Load(col *batch.Column, rows []uint16) {
	k.Col = col
	if k.Space != nil {
		k.Codes = k.Space.Translate(col, rows)
	}
}

// hasNulls reports whether the key may be NULL in this batch.
func (k *Key) hasNulls() bool { return len(k.Col.Nulls) > 0 && k.Col.Nulls.Any() }

// Table numbers the keys of one window (or of the query) 0, 1, 2, ... in
// order of first appearance. A NULL is a key of its own; NaNs are equal, and
// so are 0 and -0.
type Table interface {
	// Assign sets groups[r] to the group of row r, for each of rows. Rows that would
	// need more than limit groups get NoGroup; it returns their number.
	Assign(rows []uint16, groups []uint32, limit int) (refused int)
	Len() int
	// Output sets dst, which is empty, to key c of the groups.
	Output(c int, groups []uint32, dst *batch.Column)
	// Mark sets used[code] for the strings of key c that groups have.
	Mark(c int, used []bool)
	// Recode changes the code of key c's strings from i to codes[i].
	Recode(c int, codes []uint32)
	// Reset drops all groups and keeps memory for as many new ones.
	Reset()
}

// NoGroup is the group of a row without one. Tables store 1 + group, so the value
// 0 for "no entry" yields NoGroup too.
const NoGroup = math.MaxUint32

// MaxKeys is the number of NULL bits in the key of a rowTable.
const MaxKeys = 64

// Scratch is the memory that tables need while they process one batch. The tables
// of an operator share it.
type Scratch struct {
	row, part [batch.MaxRows]uint64
	rows      []uint64
}

// NewTable chooses the cheapest table that the keys' types allow.
func NewTable(keys []*Key, scratch *Scratch) Table {
	width := 0
	for _, k := range keys {
		width += packedBits(k.Typ)
	}
	switch {
	case len(keys) == 0:
		return oneGroup{}
	case len(keys) == 1 && keys[0].Space != nil:
		return &codeTable{key: keys[0]}
	case len(keys) == 1 || width <= 64:
		return newWordTable(keys, scratch)
	}
	return newRowTable(keys, scratch)
}

// oneGroup is the table of a query without GROUP BY: its group exists before the
// first row.
type oneGroup struct{}

func (oneGroup) Assign(rows []uint16, groups []uint32, _ int) int {
	for _, r := range rows {
		groups[r] = 0
	}
	return 0
}

func (oneGroup) Len() int { return 1 }

func (oneGroup) Output(int, []uint32, *batch.Column) {}

func (oneGroup) Mark(int, []bool) {}

func (oneGroup) Recode(int, []uint32) {}

func (oneGroup) Reset() {}

// packedBits returns how many bits a key takes when several keys are packed into
// one word, where 0 is NULL and other values count from 1. It returns more than 64
// if the key cannot be packed.
func packedBits(t types.Type) int {
	switch t.Physical() {
	case types.PhysCode, types.PhysAny:
		return 32
	case types.PhysBool:
		return 2
	}
	return 65
}

// Words writes the key at each of rows, as a number, to dst[stride*row]. What it
// writes for a NULL is undefined.
func (k *Key) Words(rows []uint16, dst []uint64, stride int) {
	switch k.Typ.Physical() {
	case types.PhysInt:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.Col.Int[r])
		}
	case types.PhysFloat:
		for _, r := range rows {
			dst[int(r)*stride] = rowstore.CanonicalBits(k.Col.Float[r])
		}
	case types.PhysBool:
		for _, r := range rows {
			dst[int(r)*stride] = 0
			if k.Col.Bool[r] {
				dst[int(r)*stride] = 1
			}
		}
	default:
		for _, r := range rows {
			dst[int(r)*stride] = uint64(k.Codes[r])
		}
	}
}

// output appends the key with the word w to dst, which has n rows.
func (k *Key) output(n int, w uint64, null bool, dst *batch.Column) {
	if null {
		dst.Nulls.Set(n)
		w = 0
	}
	switch k.Typ.Physical() {
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
		k.Space.output(c, dst)
	}
}
