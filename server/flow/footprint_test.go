package flow

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// The footprint counts the columns and each dictionary of the queued batches,
// as far as the batch that has seen most of it; an empty queue retains nothing.
func TestHeldIsWhatBatchesKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dicts := make([]*batch.Dict, 3*forgotten)
		for i := range dicts {
			dicts[i] = batch.NewDict()
		}
		var h footprint
		var queue []*batch.Batch
		seen := map[*batch.Dict]int64{} // bytes of the strings that any batch has seen, ever
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(queue) > 0 && rapid.Bool().Draw(t, "take") {
				h.remove(queue[0])
				queue = queue[1:]
			} else {
				b := batch.New([]types.Type{types.Bigint, types.Varchar})
				b.Cols[1].Dict = dicts[rapid.IntRange(0, len(dicts)-1).Draw(t, "dictionary")]
				for range rapid.IntRange(1, 3).Draw(t, "rows") {
					b.AppendRow(types.Int(1), types.Str(strings.Repeat("x", rapid.IntRange(0, 30).Draw(t, "length"))))
				}
				h.add(b)
				seen[b.Cols[1].Dict] = stringBytes(b.Cols[1].Values)
				queue = append(queue, b)
			}
			want, counted := int64(0), map[*batch.Dict]bool{}
			for _, b := range queue {
				want += b.Size()
				if d := b.Cols[1].Dict; !counted[d] {
					counted[d] = true
					want += seen[d]
				}
			}
			if h.bytes != want {
				t.Fatalf("%d bytes are held, %d counted", want, h.bytes)
			}
		}
		if len(h.dicts) > forgotten+len(queue) {
			t.Fatalf("%d dictionaries are remembered of %d batches", len(h.dicts), len(queue))
		}
	})
}

// Rows that wait for a client that does not read retain no more memory than the
// limit, however few rows are left of large batches; and each row is delivered
// or counted.
func TestUnreadIsBounded(t *testing.T) {
	const limit, rows, batches = 1 << 20, 10, 5000
	pool := batch.NewPool([]types.Type{types.Bigint, types.Bigint, types.Bigint, types.Varchar})
	tally := NewTally()
	o := NewOutlet(tally, limit)
	o.Live.Store(true)
	for range batches {
		b := pool.Get()
		for i := range b.Cols { // as in reused batches
			c := &b.Cols[i]
			c.Int, c.Code = slices.Grow(c.Int, batch.MaxRows), slices.Grow(c.Code, batch.MaxRows)
		}
		for i := range rows {
			b.AppendRow(types.Int(int64(i)), types.Int(1), types.Int(2), types.Str("work"))
		}
		pool.Seal(b)
		if _, err := o.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	kept := int64(0)
	for _, ev := range o.events[o.head:] {
		kept += ev.Batch.Size()
	}
	waiting := o.UnreadRows()
	t.Logf("%d rows wait, in %d bytes", waiting, kept)
	if kept > limit {
		t.Errorf("%d bytes wait for a client that may have %d", kept, limit)
	}
	var lost uint64
	for _, l := range tally.Losses() {
		lost += l.N
	}
	if waiting+lost != rows*batches || lost == 0 {
		t.Errorf("%d rows wait and %d are lost, of %d", waiting, lost, rows*batches)
	}
	if waiting < 5000 {
		t.Errorf("only %d rows wait: what is kept is not compact", waiting)
	}
	o.Discard()
}
