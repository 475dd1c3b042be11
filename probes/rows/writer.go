package rows

import (
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Writer encodes records into batches, and pushes full ones. It is not safe for
// concurrent use.
type Writer[T any] struct {
	// Push takes ownership of a batch. nil: rows are dropped.
	Push func(*batch.Batch)
	// Renewed, if set, is called when column i has a new dictionary in place of
	// old. No row is being written then.
	Renewed func(i int, old, new *batch.Dict)

	appenders []appender
	columns   []Column[T] // by appender: its function
	record    T           // of Put
	offset    int64
	pool      *batch.Pool
	b         *batch.Batch // being filled; nil: none
}

// appender is a compiled column. It is small, since each row reads all of them.
type appender struct {
	op      op
	at, via uint32
}

// NewWriter returns a writer of batches with columns of the given types, for
// rows that are not a table's. Push must be set before use.
func NewWriter[T any](s []types.Type, columns []Column[T], offset int64) *Writer[T] {
	w := &Writer[T]{columns: columns, offset: offset, pool: batch.NewPool(s)}
	for i, c := range columns {
		w.appenders = append(w.appenders, appender{c.op, uint32(c.at), uint32(c.via)})
		if columns[i].fixed {
			w.pool.Fix(i)
		}
		if d := w.pool.Dict(i); d != nil && columns[i].op == opSkip {
			d.Code("") // the value of its rows
		}
	}
	return w
}

// Code returns the code of a text in a Code column, or another one with a fixed
// dictionary.
func (w *Writer[T]) Code(i int, text string) uint32 { return w.pool.Dict(i).Code(text) }

// Offset returns the offset added to the times of records.
func (w *Writer[T]) Offset() int64 { return w.offset }

// Put is Add for a record that is not stored: a pointer to it would make it
// escape to the heap.
func (w *Writer[T]) Put(t T) {
	w.record = t
	w.Add(&w.record)
}

// Add writes a record as a row.
func (w *Writer[T]) Add(t *T) {
	if w.b == nil {
		if w.Push == nil {
			return
		}
		w.b = w.pool.Get()
	}
	b := w.b
	record := unsafe.Pointer(t)
	cols := b.Cols[:len(w.appenders)]
	for i, a := range w.appenders {
		c := &cols[i]
		switch a.op {
		case opWord:
			c.Int = append(c.Int, *(*int64)(unsafe.Add(record, a.at)))
		case opTime:
			c.Int = append(c.Int, *(*int64)(unsafe.Add(record, a.at))+w.offset)
		case opHalf:
			c.Int = append(c.Int, int64(*(*uint32)(unsafe.Add(record, a.at))))
		case opQuarter:
			c.Int = append(c.Int, int64(*(*uint16)(unsafe.Add(record, a.at))))
		case opWordThrough:
			p := *(*unsafe.Pointer)(unsafe.Add(record, a.via))
			c.Int = append(c.Int, *(*int64)(unsafe.Add(p, a.at)))
		case opTimeThrough:
			p := *(*unsafe.Pointer)(unsafe.Add(record, a.via))
			c.Int = append(c.Int, *(*int64)(unsafe.Add(p, a.at))+w.offset)
		case opHalfThrough:
			p := *(*unsafe.Pointer)(unsafe.Add(record, a.via))
			c.Int = append(c.Int, int64(*(*uint32)(unsafe.Add(p, a.at))))
		case opQuarterThrough:
			p := *(*unsafe.Pointer)(unsafe.Add(record, a.via))
			c.Int = append(c.Int, int64(*(*uint16)(unsafe.Add(p, a.at))))
		case opBytes:
			c.Code = append(c.Code, c.Dict.CodeBytes(*(*[]byte)(unsafe.Add(record, a.at))))
		case opStr:
			s := *(*string)(unsafe.Add(record, a.at))
			if s == "" {
				c.Nulls.Set(b.N)
			}
			c.Code = append(c.Code, c.Dict.Code(s))
		case opCode:
			code := *(*uint32)(unsafe.Add(record, a.at))
			if code == Null {
				c.Nulls.Set(b.N)
				code = 0 // a valid code: readers may use it before they check for NULL
			}
			c.Code = append(c.Code, code)
		case opSkip:
			skip(c)
		case opInt:
			n, known := w.columns[i].int(t)
			if !known {
				c.Nulls.Set(b.N)
				n = 0
			}
			c.Int = append(c.Int, n)
		case opTimeOf:
			n, _ := w.columns[i].int(t)
			c.Int = append(c.Int, n+w.offset)
		case opReal:
			x, known := w.columns[i].real(t)
			if !known {
				c.Nulls.Set(b.N)
				x = 0
			}
			c.Float = append(c.Float, x)
		case opBool:
			x, known := w.columns[i].bool(t)
			if !known {
				c.Nulls.Set(b.N)
				x = false
			}
			c.Bool = append(c.Bool, x)
		case opText:
			s, known := w.columns[i].text(t)
			if !known {
				c.Nulls.Set(b.N)
				s = ""
			}
			c.Code = append(c.Code, c.Dict.Code(s))
		case opBytesOf:
			s, known := w.columns[i].bytes(t)
			if !known {
				c.Nulls.Set(b.N)
				s = nil
			}
			c.Code = append(c.Code, c.Dict.CodeBytes(s))
		case opList:
			list := w.columns[i].list(t)
			if list == nil {
				c.Nulls.Set(b.N)
			}
			c.Any = append(c.Any, list)
		case opOther:
			w.columns[i].other(c, b.N, t)
		case opCell:
			cell(c, b.N, (*(*[]types.Value)(record))[a.at])
		}
	}
	if b.N++; b.N == batch.MaxRows {
		w.Flush()
	}
}

// skip appends an arbitrary value.
func skip(c *batch.Column) {
	switch c.Type.Physical() {
	case types.PhysCode:
		c.Code = append(c.Code, 0)
	case types.PhysBool:
		c.Bool = append(c.Bool, false)
	case types.PhysAny:
		c.Any = append(c.Any, nil)
	case types.PhysFloat:
		c.Float = append(c.Float, 0)
	default:
		c.Int = append(c.Int, 0)
	}
}

// Flush pushes the rows so far.
func (w *Writer[T]) Flush() {
	b := w.b
	if b == nil {
		return
	}
	w.b = nil
	w.pool.Seal(b)
	if w.Renewed != nil {
		for i := range b.Cols {
			if old, now := b.Cols[i].Dict, w.pool.Dict(i); now != old {
				w.Renewed(i, old, now)
			}
		}
	}
	w.Push(b)
}
