package server

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
)

// Whatever comes and goes, what is kept is the columns and each dictionary that a
// batch has, as far as the one that has seen most of it; and an empty queue keeps
// nothing.
func TestHeldIsWhatBatchesKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dicts := make([]*batch.Dict, 3*forgotten)
		for i := range dicts {
			dicts[i] = batch.NewDict()
		}
		var h held
		var queue []*batch.Batch
		seen := map[*batch.Dict]int64{} // bytes of what any batch has seen, ever
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(queue) > 0 && rapid.Bool().Draw(t, "take") {
				h.remove(queue[0])
				queue = queue[1:]
			} else {
				b := batch.New(batch.Schema{batch.Bigint, batch.Varchar})
				b.Cols[1].Dict = dicts[rapid.IntRange(0, len(dicts)-1).Draw(t, "dictionary")]
				for range rapid.IntRange(1, 3).Draw(t, "rows") {
					b.AppendRow(batch.Int(1), batch.Str(strings.Repeat("x", rapid.IntRange(0, 30).Draw(t, "length"))))
				}
				h.add(b)
				seen[b.Cols[1].Dict] = stringBytes(b.Cols[1].Values)
				queue = append(queue, b)
			}
			want, counted := int64(0), map[*batch.Dict]bool{}
			for _, b := range queue {
				want += int64(b.N) * 16
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
