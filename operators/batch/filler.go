package batch

import "endoscope/planner/types"

// Filler makes batches of rows that come one by one, and pushes those that are full.
// It is for sources whose rows are few, or dear to observe: each Row is filled column
// by column, and ends with Done. It belongs to one goroutine.
type Filler struct {
	Push func(*Batch) // takes the batches over
	pool *Pool
	b    *Batch // being filled; nil: empty
}

// NewFiller returns a filler of batches with columns of the given types. Its Push is
// yet to be set.
func NewFiller(s []types.Type) Filler { return Filler{pool: NewPool(s)} }

// Row returns the batch whose row N is to be filled.
func (f *Filler) Row() *Batch {
	if f.b == nil {
		f.b = f.pool.Get()
	}
	return f.b
}

// Done ends a row, all of whose columns have been given a value.
func (f *Filler) Done() {
	if f.b.N++; f.b.N == MaxRows {
		f.Flush()
	}
}

// Number adds a number to a column of the row; 0 is NULL.
func (f *Filler) Number(c *Column, n int64) {
	if n == 0 {
		c.Nulls.Set(f.b.N)
	}
	c.Int = append(c.Int, n)
}

// Text adds a string to a column of the row; an empty one is NULL.
func (f *Filler) Text(c *Column, s string) { f.TextOr(c, s, s != "") }

// TextOr adds a string to a column of the row, or NULL if it is not known.
func (f *Filler) TextOr(c *Column, s string, known bool) {
	if !known {
		c.Nulls.Set(f.b.N)
		s = ""
	}
	c.Code = append(c.Code, c.Dict.Code(s))
}

// Flush pushes the rows that were made so far.
func (f *Filler) Flush() {
	b := f.b
	if b == nil {
		return
	}
	f.b = nil
	f.pool.Seal(b)
	f.Push(b)
}
