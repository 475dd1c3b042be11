package columnar

import (
	"github.com/apache/arrow-go/v18/arrow"

	"endoscope/operators/batch"
)

// wholeDictionary is the number of strings up to which a dictionary is sent whole,
// and again after it has grown. Above it each record has its own dictionary of the
// strings that it uses; otherwise the bytes sent would grow quadratically with the
// number of strings.
const (
	wholeDictionary      = 1 << 12
	wholeDictionaryBytes = 1 << 20
)

// dictionary builds the Arrow dictionaries of one column.
type dictionary struct {
	// The dictionary that was last sent whole.
	of     *batch.Dict
	n      int
	values arrow.Array
	large  bool // its strings exceed the byte limit
	utf8   bool // strings are made valid

	text  textBuffer
	local map[string]uint32 // codes in the dictionary of one record
	known []uint32          // 1 + the local code of each code of a batch.Dict; 0: none
}

// encode returns the codes of column at of all batches, possibly in a batch's own
// memory, and the dictionary. joined is the buffer for codes that have to be copied.
func (d *dictionary) encode(bs []*batch.Batch, at int, joined *[]uint32, nulls bool, t arrow.DataType) ([]uint32, arrow.Array) {
	if len(bs) == 0 && d.values != nil {
		return nil, d.values // unchanged: not sent again
	}
	if col := common(bs, at); col != nil && d.whole(col, t) {
		if len(bs) == 1 && bs[0].Sel == nil {
			return col.Code, d.values
		}
		*joined = (*joined)[:0]
		for _, b := range bs {
			*joined = appendRows(*joined, b, b.Cols[at].Code)
		}
		return *joined, d.values
	}
	return d.own(bs, at, joined, nulls, t)
}

// common returns the column of the last batch, which has the longest snapshot, if all
// batches share a dictionary.
func common(bs []*batch.Batch, at int) *batch.Column {
	if len(bs) == 0 {
		return nil
	}
	last := &bs[len(bs)-1].Cols[at]
	for _, b := range bs {
		if c := &b.Cols[at]; c.Dict != last.Dict || len(c.Values) > len(last.Values) {
			return nil
		}
	}
	return last
}

// append appends a string to those of the dictionary.
func (d *dictionary) append(s string) {
	if d.utf8 {
		s, _ = validText(s)
	}
	d.text.bytes = append(d.text.bytes, s...)
	d.text.end()
}

// whole makes values the complete dictionary of col, if it is small enough.
func (d *dictionary) whole(col *batch.Column, t arrow.DataType) bool {
	if col.Dict == nil || len(col.Values) > wholeDictionary {
		return false
	}
	if d.of == col.Dict && len(col.Values) <= d.n {
		return !d.large
	}
	d.text = textBuffer{} // the array keeps the memory
	d.text.reset()
	for _, s := range col.Values {
		d.append(s)
	}
	d.of, d.n, d.large = col.Dict, len(col.Values), len(d.text.bytes) > wholeDictionaryBytes
	if d.large {
		return false
	}
	d.values = d.text.array(t.(*arrow.DictionaryType).ValueType, d.n, validity{})
	return true
}

// own returns codes in a dictionary of only the strings of these rows.
func (d *dictionary) own(bs []*batch.Batch, at int, joined *[]uint32, nulls bool, t arrow.DataType) ([]uint32, arrow.Array) {
	d.of, d.n = nil, 0
	d.text = textBuffer{}
	d.text.reset()
	if d.local == nil {
		d.local = map[string]uint32{}
	}
	clear(d.local)
	codes := (*joined)[:0]
	n := uint32(0)
	add := func(s string) uint32 {
		if c, ok := d.local[s]; ok {
			return c
		}
		d.local[s] = n
		d.append(s)
		n++
		return n - 1
	}
	if nulls {
		add("") // the codes of NULLs must be valid
	}
	var of *batch.Dict
	for _, b := range bs {
		col := &b.Cols[at]
		if of == nil || of != col.Dict {
			clear(d.known)
			of = col.Dict
		}
		if n := len(col.Values) - len(d.known); n > 0 {
			d.known = append(d.known, make([]uint32, n)...)
		}
		for i := range b.Len() {
			row := b.Row(i)
			if nulls && col.Nulls.Get(row) {
				codes = append(codes, 0)
				continue
			}
			code := col.Code[row]
			if d.known[code] == 0 {
				d.known[code] = 1 + add(col.Values[code])
			}
			codes = append(codes, d.known[code]-1)
		}
	}
	d.forget(bs, at)
	*joined = codes
	d.values = d.text.array(t.(*arrow.DictionaryType).ValueType, int(n), validity{})
	return codes, d.values
}

// forget clears the entries of known that were used, since few of many are.
func (d *dictionary) forget(bs []*batch.Batch, at int) {
	for _, b := range bs {
		col := &b.Cols[at]
		for i := range b.Len() {
			if c := col.Code[b.Row(i)]; int(c) < len(d.known) {
				d.known[c] = 0
			}
		}
	}
}
