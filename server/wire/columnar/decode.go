package columnar

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Decoder turns the records of one result, in the form Exact, into batches. The
// batches share the memory of their records.
type Decoder struct {
	cols  []wire.Column
	dicts []decodedDict
}

// decodedDict is the last dictionary of a column.
type decodedDict struct {
	of     arrow.ArrayData
	dict   *batch.Dict
	values []string
	recode []uint32 // the record's codes to those of dict; nil if they are equal
}

// NewDecoder returns a decoder for a result with these columns.
func NewDecoder(cols []wire.Column) *Decoder {
	return &Decoder{cols: cols, dicts: make([]decodedDict, len(cols))}
}

var errRecord = errors.New("a record does not match its schema")

// Decode returns the rows of a record in batches, which the caller releases.
func (d *Decoder) Decode(rec arrow.RecordBatch) ([]*batch.Batch, error) {
	if int(rec.NumCols()) != len(d.cols) {
		return nil, errRecord
	}
	rows := int(rec.NumRows())
	whole := make([]batch.Column, len(d.cols))
	for i, c := range d.cols {
		whole[i].Type = c.Type
		if err := d.column(&whole[i], rec.Column(i), i, rows); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	var out []*batch.Batch
	for from := 0; from < rows; from += batch.MaxRows {
		n := min(rows-from, batch.MaxRows)
		out = append(out, batch.Of(n, section(whole, from, n)))
	}
	return out, nil
}

// section returns rows [from, from+n) of all columns.
func section(whole []batch.Column, from, n int) []batch.Column {
	cols := make([]batch.Column, len(whole))
	for i := range whole {
		w := &whole[i]
		c := batch.Column{Type: w.Type, Dict: w.Dict, Values: w.Values}
		switch w.Type.Physical() {
		case types.PhysInt:
			c.Int = w.Int[from : from+n]
		case types.PhysFloat:
			c.Float = w.Float[from : from+n]
		case types.PhysBool:
			c.Bool = w.Bool[from : from+n]
		case types.PhysCode:
			c.Code = w.Code[from : from+n]
		case types.PhysAny:
			c.Any = w.Any[from : from+n]
		}
		if first := from >> 6; first < len(w.Nulls) { // a multiple of 64, as MaxRows is
			c.Nulls = w.Nulls[first:min(len(w.Nulls), first+(n+63)>>6)]
		}
		cols[i] = c
	}
	return cols
}

func (d *Decoder) column(c *batch.Column, a arrow.Array, i, rows int) error {
	data := a.Data()
	c.Nulls = nullsOf(a, rows)
	switch c.Type.Physical() {
	case types.PhysInt:
		var ok bool
		c.Int, ok = numbers[int64](data, rows)
		return formed(ok)
	case types.PhysFloat:
		var ok bool
		c.Float, ok = numbers[float64](data, rows)
		return formed(ok)
	case types.PhysBool:
		b, ok := a.(*array.Boolean)
		if !ok {
			return errRecord
		}
		c.Bool = make([]bool, rows)
		for r := range c.Bool {
			c.Bool[r] = b.Value(r)
		}
	case types.PhysCode:
		return d.coded(c, a, i, rows)
	case types.PhysAny:
		b, ok := a.(*array.Binary)
		if !ok {
			return errRecord
		}
		c.Any = make([]any, rows)
		for r := range c.Any {
			if a.IsNull(r) {
				continue
			}
			v, _, err := readExact(b.Value(r), 0)
			if err != nil {
				return err
			}
			c.Any[r] = v.A
		}
	}
	return nil
}

func formed(ok bool) error {
	if !ok {
		return errRecord
	}
	return nil
}

// numbers returns the values buffer of an array as a slice of T.
func numbers[T int64 | float64 | uint32](data arrow.ArrayData, rows int) ([]T, bool) {
	bufs := data.Buffers()
	var zero T
	if rows == 0 {
		return nil, true
	}
	if len(bufs) < 2 || bufs[1] == nil || bufs[1].Len() < (data.Offset()+rows)*int(unsafe.Sizeof(zero)) {
		return nil, false
	}
	first := &bufs[1].Bytes()[0]
	if uintptr(unsafe.Pointer(first))%unsafe.Alignof(zero) != 0 {
		// A buffer that was received over the network may be unaligned.
		s := make([]T, rows)
		copy(bytesOf(s), bufs[1].Bytes()[data.Offset()*int(unsafe.Sizeof(zero)):])
		return s, true
	}
	all := unsafe.Slice((*T)(unsafe.Pointer(first)), data.Offset()+rows)
	return all[data.Offset():], true
}

// coded decodes a dictionary-encoded column.
func (d *Decoder) coded(c *batch.Column, a arrow.Array, i, rows int) error {
	da, ok := a.(*array.Dictionary)
	if !ok {
		return errRecord
	}
	codes, ok := numbers[uint32](da.Indices().Data(), rows)
	if !ok {
		return errRecord
	}
	dd := &d.dicts[i]
	if dd.dict == nil || dd.of != da.Dictionary().Data() {
		if err := dd.read(da.Dictionary()); err != nil {
			return err
		}
	}
	if len(dd.values) == 0 && rows > 0 { // only NULLs
		dd.values = append(dd.values, "")
	}
	for r, code := range codes {
		if int(code) >= len(dd.values) && (dd.recode == nil || int(code) >= len(dd.recode)) && !c.Nulls.Get(r) {
			return errRecord
		}
	}
	if dd.recode != nil {
		again := make([]uint32, rows)
		for r, code := range codes {
			if int(code) < len(dd.recode) {
				again[r] = dd.recode[code]
			}
		}
		codes = again
	} else if a.NullN() > 0 {
		codes = withoutNulls(codes, c.Nulls)
	}
	c.Code, c.Dict, c.Values = codes, dd.dict, dd.values
	return nil
}

// withoutNulls replaces the codes of NULL rows by valid ones.
func withoutNulls(codes []uint32, nulls batch.Bitmap) []uint32 {
	out := make([]uint32, len(codes))
	for r, code := range codes {
		if !nulls.Get(r) {
			out[r] = code
		}
	}
	return out
}

// read adopts a dictionary without copying its strings.
func (dd *decodedDict) read(a arrow.Array) error {
	n := a.Len()
	values := make([]string, n)
	switch t := a.(type) {
	case *array.String:
		for i := range n {
			values[i] = t.Value(i)
		}
	case *array.Binary:
		for i := range n {
			values[i] = t.ValueString(i)
		}
	default:
		return errRecord
	}
	*dd = decodedDict{of: a.Data(), dict: batch.NewDict(), values: values}
	codes := make([]uint32, n)
	dd.dict.CodeStrings(codes, values)
	if dd.dict.Len() < n { // some were duplicates
		dd.recode, dd.values = codes, dd.dict.Values()
	}
	return nil
}

// nullsOf returns the bitmap of NULL rows.
func nullsOf(a arrow.Array, rows int) batch.Bitmap {
	if a.NullN() == 0 {
		return nil
	}
	var nulls batch.Bitmap
	if valid := a.NullBitmapBytes(); a.Data().Offset() == 0 && len(valid) >= (rows+7)/8 {
		nulls = make(batch.Bitmap, (rows+63)/64)
		for i, b := range valid[:(rows+7)/8] {
			nulls[i>>3] |= uint64(^b) << (8 * (i & 7))
		}
		if tail := rows & 63; tail != 0 {
			nulls[len(nulls)-1] &= 1<<tail - 1
		}
		return nulls
	}
	for r := range rows {
		if a.IsNull(r) {
			nulls.Set(r)
		}
	}
	return nulls
}
