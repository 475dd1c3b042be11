package batch

import "testing"

// Rows come out in batches that are full, and the rest when asked for; what is not
// known is NULL.
func TestFillerGivesFullBatches(t *testing.T) {
	var got []*Batch
	f := NewFiller(Schema{Bigint, Varchar, Varchar})
	f.Push = func(b *Batch) { got = append(got, b) }
	f.Flush() // nothing
	for i := range int64(MaxRows + 2) {
		b := f.Row()
		f.Number(&b.Cols[0], i)
		f.Text(&b.Cols[1], []string{"", "even"}[(i+1)%2])
		f.TextOr(&b.Cols[2], "", i%3 > 0)
		f.Done()
	}
	if len(got) != 1 || got[0].N != MaxRows {
		t.Fatalf("%d batches", len(got))
	}
	f.Flush()
	f.Flush()
	if len(got) != 2 || got[1].N != 2 {
		t.Fatalf("%d batches in the end", len(got))
	}
	for k, b := range got {
		for row := range b.N {
			i := int64(k*MaxRows + row)
			n, text, empty := b.Cols[0].Value(row), b.Cols[1].Value(row), b.Cols[2].Value(row)
			if n.IsNull != (i == 0) || n.I != i {
				t.Fatalf("row %d: number %+v", i, n)
			}
			if text.IsNull != (i%2 == 1) || !text.IsNull && text.S != "even" {
				t.Fatalf("row %d: text %+v", i, text)
			}
			if empty.IsNull != (i%3 == 0) || empty.S != "" {
				t.Fatalf("row %d: a known empty text %+v", i, empty)
			}
		}
	}
}
