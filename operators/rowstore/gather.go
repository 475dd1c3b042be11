package rowstore

import (
	"fmt"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// MaxDict is the number of strings after which an operator replaces the dictionary that it
// fills, so that unbounded strings do not accumulate.
const MaxDict = 1 << 16

// translator translates codes of other dictionaries to those of its own, with a table per
// dictionary: a string is hashed once, not once per row.
type translator struct {
	to     *batch.Dict
	Bytes  int64 // of the strings in to, with the overhead of the dictionary
	tables map[*batch.Dict][]uint32

	from  *batch.Dict // the dictionary of table
	table []uint32    // 1 + the code in to; 0: not translated yet
}

// MaxTables limits the tables for dictionaries that their sources may have replaced since.
const MaxTables = 16

func newTranslator() *translator {
	return &translator{to: batch.NewDict(), tables: map[*batch.Dict][]uint32{}}
}

// source sets the dictionary that code translates from to c's.
func (t *translator) source(c *batch.Column) {
	if c.Dict == nil || c.Dict != t.from {
		t.keepTable()
		t.from, t.table = c.Dict, t.tables[c.Dict]
	}
	if missing := len(c.Values) - len(t.table); missing > 0 {
		t.table = append(t.table, make([]uint32, missing)...)
	}
}

func (t *translator) keepTable() {
	if t.from == nil {
		return
	}
	if len(t.tables) >= MaxTables {
		clear(t.tables)
	}
	t.tables[t.from] = t.table
}

// code translates code c, whose string is in values.
func (t *translator) code(values []string, c uint32) uint32 {
	if int(c) >= len(values) { // a NULL row of a source without strings
		return t.add("")
	}
	if k := t.table[c]; k != 0 {
		return k - 1
	}
	k := t.add(values[c])
	t.table[c] = k + 1
	return k
}

func (t *translator) add(s string) uint32 {
	n := t.to.Len()
	k := t.to.Code(s)
	if int(k) == n {
		t.Bytes += int64(len(s)) + dictEntryBytes
	}
	return k
}

// dictEntryBytes is the approximate overhead of a dictionary per string: two string
// headers, a code, a map slot.
const dictEntryBytes = 64

// Gatherer copies rows of many batches into dense ones of one schema, for operators that
// change the order of rows.
type Gatherer struct {
	pool *batch.Pool
	tr   []*translator // for PhysCode columns
	b    *batch.Batch  // in progress
}

func NewGatherer(s []types.Type) *Gatherer {
	g := &Gatherer{pool: batch.NewPool(s), tr: make([]*translator, len(s))}
	for i, t := range s {
		if t.Physical() == types.PhysCode {
			g.tr[i] = newTranslator()
		}
	}
	return g
}

// Room returns the number of rows for which the current batch has room.
func (g *Gatherer) Room() int {
	if g.b == nil {
		return batch.MaxRows
	}
	return batch.MaxRows - g.b.N
}

// Add copies rows of src; there must be room for them.
func (g *Gatherer) Add(src *batch.Batch, rows []uint16) {
	if g.b == nil {
		g.b = g.pool.Get()
		for i, t := range g.tr {
			if t == nil {
				continue
			}
			if t.to.Len() > MaxDict {
				*t = *newTranslator()
			}
			g.b.Cols[i].Dict = t.to
		}
	}
	for i := range src.Cols {
		AppendRows(&g.b.Cols[i], g.b.N, &src.Cols[i], rows, g.tr[i])
	}
	g.b.N += len(rows)
}

// Finish returns the current batch, or nil if there is none. The caller owns it.
func (g *Gatherer) Finish() *batch.Batch {
	b := g.b
	g.b = nil
	return b
}

// AppendRows appends rows of src to dst, which has n rows. Strings are translated by tr; if
// tr is nil, dst must have src's dictionary or be empty, and adopts it.
func AppendRows[I uint16 | int32](dst *batch.Column, n int, src *batch.Column, rows []I, tr *translator) {
	switch src.Type.Physical() {
	case types.PhysBool:
		dst.Bool = appendAt(dst.Bool, src.Bool, rows)
	case types.PhysInt:
		dst.Int = appendAt(dst.Int, src.Int, rows)
	case types.PhysFloat:
		dst.Float = appendAt(dst.Float, src.Float, rows)
	case types.PhysAny:
		dst.Any = appendAt(dst.Any, src.Any, rows)
	case types.PhysCode:
		if tr == nil {
			dst.Code = appendAt(dst.Code, src.Code, rows)
			dst.Dict, dst.Values = src.Dict, src.Values
			break
		}
		dst.Code = slices.Grow(dst.Code, len(rows))[:n+len(rows)]
		tr.source(src)
		for i, r := range rows {
			dst.Code[n+i] = tr.code(src.Values, src.Code[r])
		}
		dst.Values = tr.to.Values()
	}
	if len(src.Nulls) == 0 {
		return
	}
	for i, r := range rows {
		if src.Nulls.Get(int(r)) {
			dst.Nulls.Set(n + i)
		}
	}
}

func appendAt[T any, I uint16 | int32](dst, src []T, rows []I) []T {
	n := len(dst)
	dst = slices.Grow(dst, len(rows))[:n+len(rows)]
	out := dst[n:]
	for i, r := range rows {
		out[i] = src[r]
	}
	return dst
}

// anyBytes returns the approximate memory of a LIST or an encoding.
func anyBytes(v any) int64 {
	if vs, ok := v.([]types.Value); ok {
		n := int64(24)
		for i := range vs {
			n += 72 + int64(len(vs[i].S))
			if vs[i].A != nil {
				n += anyBytes(vs[i].A)
			}
		}
		return n
	}
	return 64
}

// AnyText returns a text that is equal exactly for equal LISTs and encodings.
func AnyText(v any) string {
	if vs, ok := v.([]types.Value); ok {
		s := "["
		for i := range vs {
			x := &vs[i]
			switch {
			case x.IsNull:
				s += "n"
			case x.A != nil:
				s += AnyText(x.A)
			default:
				s += fmt.Sprintf("%d,%d,%x,%q", x.Type, x.I, CanonicalBits(x.F), x.S)
			}
			s += ";"
		}
		return s + "]"
	}
	return fmt.Sprint(v)
}
