package rowstore

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/types"
)

// Two rows have the same number exactly if their values are equal, whatever
// dictionaries their strings have; retained keys keep their order.
func TestKeyTable(t *testing.T) {
	kinds := []types.Type{types.Bigint, types.Double, types.Varchar, types.Boolean}
	rapid.Check(t, func(t *rapid.T) {
		table := NewKeyTable(kinds)
		numbers := map[string]uint32{}
		var batches []*batch.Batch
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			b := batch.New(kinds)
			for range rapid.IntRange(1, 100).Draw(t, "rows") {
				b.AppendRow(testplan.DrawRow(t, kinds)...)
			}
			batches = append(batches, b)
			for i, id := range table.Lookup(b.Cols, batch.RowsOf(b), nil) {
				key := keyText(b, i)
				if want, ok := numbers[key]; ok && want != id || !ok && int(id) != len(numbers) {
					t.Fatalf("%s is number %d, not %d", key, id, want)
				}
				numbers[key] = id
			}
		}
		var keep []uint32 // every second one
		for id := uint32(0); int(id) < table.Len(); id += 2 {
			keep = append(keep, id)
		}
		table.Retain(keep)
		for _, b := range batches {
			for i, id := range table.Lookup(b.Cols, batch.RowsOf(b), nil) {
				key := keyText(b, i)
				if old := numbers[key]; old%2 == 0 && id != old/2 || old%2 == 1 && int(id) < len(keep) {
					t.Fatalf("%s was number %d and is now %d", key, old, id)
				}
			}
		}
	})
}

// keyText is the same for rows that are equal, and only for these.
func keyText(b *batch.Batch, row int) string {
	text := ""
	for c := range b.Cols {
		v := b.Cols[c].Value(row)
		if v.F == 0 {
			v.F = 0 // not -0
		}
		text += fmt.Sprintf("%v %v %v %q;", v.IsNull, v.I, v.F, v.S)
	}
	return text
}
