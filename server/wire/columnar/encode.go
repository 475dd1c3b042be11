package columnar

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Encoder makes records of the batches of one result. A record shares the memory of
// its batches and of the encoder: it is valid until the next one is made.
type Encoder struct {
	schema *arrow.Schema
	form   Form
	cols   []columnEncoder
}

// columnEncoder builds the arrays of one column.
type columnEncoder struct {
	typ   types.Type
	arrow arrow.DataType
	form  Form

	words []uint64 // joined numbers
	codes []uint32 // joined codes
	valid []byte
	text  textBuffer
	dict  dictionary

	altered int // texts that were not UTF-8
}

// NewEncoder returns an encoder for a result.
func NewEncoder(cols []wire.Column, f Form) *Encoder {
	e := &Encoder{schema: Schema(cols, f), form: f, cols: make([]columnEncoder, len(cols))}
	for i, c := range cols {
		e.cols[i] = columnEncoder{typ: c.Type, arrow: e.schema.Field(i).Type, form: f}
		e.cols[i].dict.utf8 = f != Exact && c.Type == types.Varchar
	}
	return e
}

// Schema returns the schema of the records.
func (e *Encoder) Schema() *arrow.Schema { return e.schema }

// Altered returns the number of texts so far that were not UTF-8 and were altered (Plain).
func (e *Encoder) Altered() (n int) {
	for i := range e.cols {
		n += e.cols[i].altered
	}
	return n
}

// Bytes estimates the size of a batch's rows in a record.
func (e *Encoder) Bytes(b *batch.Batch) int {
	n := 0
	for i := range b.Cols {
		col := &b.Cols[i]
		n += 8 * b.Len()
		if col.Type.Physical() != types.PhysCode || e.form != Plain && len(col.Values) <= wholeDictionary {
			continue
		}
		for r := range b.Len() {
			if row := b.Row(r); !col.Nulls.Get(row) {
				n += len(col.Values[col.Code[row]])
			}
		}
	}
	return n
}

// Record returns one record of the rows of all batches, in order. Without batches it
// has no rows.
func (e *Encoder) Record(bs []*batch.Batch) arrow.RecordBatch {
	rows := 0
	for _, b := range bs {
		rows += b.Len()
	}
	arrays := make([]arrow.Array, len(e.cols))
	for i := range e.cols {
		arrays[i] = e.cols[i].encode(bs, i, rows)
	}
	r := array.NewRecordBatch(e.schema, arrays, int64(rows))
	for _, a := range arrays {
		a.Release()
	}
	return r
}

// encode joins column at of all batches into one array.
func (c *columnEncoder) encode(bs []*batch.Batch, at, rows int) arrow.Array {
	nulls := c.nulls(bs, at, rows)
	switch c.typ.Physical() {
	case types.PhysInt:
		if len(bs) == 1 && bs[0].Sel == nil {
			return c.make(rows, nulls, bytesOf(bs[0].Cols[at].Int[:rows]))
		}
		c.words = c.words[:0]
		for _, b := range bs {
			c.words = appendRows(c.words, b, wordsOf(b.Cols[at].Int))
		}
		return c.make(rows, nulls, bytesOf(c.words))
	case types.PhysFloat:
		if len(bs) == 1 && bs[0].Sel == nil {
			return c.make(rows, nulls, bytesOf(bs[0].Cols[at].Float[:rows]))
		}
		c.words = c.words[:0]
		for _, b := range bs {
			c.words = appendRows(c.words, b, wordsOf(b.Cols[at].Float))
		}
		return c.make(rows, nulls, bytesOf(c.words))
	case types.PhysBool:
		bits := make([]byte, (rows+7)/8)
		n := 0
		for _, b := range bs {
			for i := range b.Len() {
				if b.Cols[at].Bool[b.Row(i)] {
					bits[n>>3] |= 1 << (n & 7)
				}
				n++
			}
		}
		return c.make(rows, nulls, bits)
	case types.PhysCode:
		if c.form == Plain {
			return c.plain(bs, at, rows, nulls)
		}
		codes, values := c.dict.encode(bs, at, &c.codes, nulls.n > 0, c.arrow)
		index := c.as(arrow.PrimitiveTypes.Int32, rows, nulls, bytesOf(codes[:rows]))
		defer index.Release()
		return array.NewDictionaryArray(c.arrow, index, values)
	case types.PhysAny:
		c.text.reset()
		for _, b := range bs {
			col := &b.Cols[at]
			for i := range b.Len() {
				row := b.Row(i)
				switch {
				case col.Nulls.Get(row):
				case c.form == Exact:
					c.text.bytes = appendExact(c.text.bytes, col.Value(row))
				default:
					c.text.bytes = appendText(c.text.bytes, col.Value(row))
				}
				c.text.end()
			}
		}
		return c.text.array(c.arrow, rows, nulls)
	}
	return array.NewNull(rows)
}

// plain builds an array of consecutive strings from codes.
func (c *columnEncoder) plain(bs []*batch.Batch, at, rows int, nulls validity) arrow.Array {
	c.text.reset()
	for _, b := range bs {
		col := &b.Cols[at]
		for i := range b.Len() {
			if row := b.Row(i); !col.Nulls.Get(row) {
				c.appendPlain(col.Values[col.Code[row]])
			}
			c.text.end()
		}
	}
	return c.text.array(c.arrow, rows, nulls)
}

func (c *columnEncoder) appendPlain(s string) {
	if c.typ == types.Varchar {
		valid, altered := validText(s)
		if s = valid; altered {
			c.altered++
		}
	}
	c.text.bytes = append(c.text.bytes, s...)
}

// validText returns s with each run of bytes that is not UTF-8 replaced by U+FFFD: Arrow's text
// is UTF-8, and readers reject anything else. The form Exact keeps the bytes.
func validText(s string) (valid string, altered bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	return strings.ToValidUTF8(s, "\ufffd"), true
}

// validity is a bitmap of the rows that are not NULL; nil if no row is NULL.
type validity struct {
	bits []byte
	n    int // number of NULLs
}

func (c *columnEncoder) nulls(bs []*batch.Batch, at, rows int) validity {
	var any bool
	for _, b := range bs {
		any = any || b.Cols[at].Nulls.Any()
	}
	if !any {
		return validity{}
	}
	if n := (rows + 7) / 8; cap(c.valid) < n {
		c.valid = make([]byte, n)
	} else {
		c.valid = c.valid[:n]
		clear(c.valid)
	}
	v := validity{bits: c.valid}
	n := 0
	for _, b := range bs {
		nulls := b.Cols[at].Nulls
		for i := range b.Len() {
			if nulls.Get(b.Row(i)) {
				v.n++
			} else {
				v.bits[n>>3] |= 1 << (n & 7)
			}
			n++
		}
	}
	return v
}

func (c *columnEncoder) make(rows int, v validity, values []byte) arrow.Array {
	return c.as(c.arrow, rows, v, values)
}

func (c *columnEncoder) as(t arrow.DataType, rows int, v validity, values []byte) arrow.Array {
	return arrayOf(t, rows, v, memory.NewBufferBytes(values))
}

// arrayOf returns an array over existing buffers.
func arrayOf(t arrow.DataType, rows int, v validity, buffers ...*memory.Buffer) arrow.Array {
	all := make([]*memory.Buffer, 0, 1+len(buffers))
	if v.n == 0 {
		all = append(all, nil)
	} else {
		all = append(all, memory.NewBufferBytes(v.bits))
	}
	d := array.NewData(t, rows, append(all, buffers...), nil, v.n, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// textBuffer builds an Arrow string array: the bytes of all strings, and their
// offsets.
type textBuffer struct {
	offsets []int32
	bytes   []byte
}

func (t *textBuffer) reset() {
	t.offsets, t.bytes = append(t.offsets[:0], 0), t.bytes[:0]
}

// end marks the end of the string whose bytes were appended.
func (t *textBuffer) end() { t.offsets = append(t.offsets, int32(len(t.bytes))) }

func (t *textBuffer) array(typ arrow.DataType, rows int, v validity) arrow.Array {
	return arrayOf(typ, rows, v, memory.NewBufferBytes(bytesOf(t.offsets)), memory.NewBufferBytes(t.bytes))
}

// appendRows appends the selected rows of b.
func appendRows[T any](dst []T, b *batch.Batch, src []T) []T {
	if b.Sel == nil {
		return append(dst, src[:b.N]...)
	}
	for _, r := range b.Sel {
		dst = append(dst, src[r])
	}
	return dst
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// wordsOf reinterprets a slice of 64-bit numbers as words.
func wordsOf[T int64 | float64](s []T) []uint64 {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&s[0])), len(s))
}
