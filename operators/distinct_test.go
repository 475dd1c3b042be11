package operators

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// NULLs are equal to each other and to nothing else; -0 is 0, NaN is NaN; a
// list is compared by its elements.
func TestDistinct(t *testing.T) {
	got := play(t, &plan.Distinct{Input: relation("x:bigint f:double s:varchar l:list")}, Options{}, `
		1 0 a p,q
		1 -0 a p,q
		1 NaN a p,q
		1 NaN a p,q
		0 0 a p,q
		null 0 a p,q
		--
		null -0 a p,q
		1 0 '' p,q
		1 0 null p,q
		1 0 null p
		wm 5
		1 0 a p,q
		1 0 null null
		1 0 null null
		close`)
	expect(t, got, `
		1 0 a p,q
		1 NaN a p,q
		0 0 a p,q
		null 0 a p,q
		1 0 '' p,q
		1 0 null p,q
		1 0 null p
		wm 5
		1 0 null null
		close`)
}

func TestDistinctPerFlush(t *testing.T) {
	for _, per := range []bool{false, true} {
		again := ""
		if per {
			again = "1\n"
		}
		got := play(t, &plan.Distinct{Input: relation("x:bigint"), PerFlush: per}, Options{}, `
			1
			1
			2
			flush
			1
			3
			close`)
		expect(t, got, "1\n2\nflush\n"+again+"3\nclose")
	}
}

func TestDistinctMemoryLimit(t *testing.T) {
	var script strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&script, "%d\n", i)
	}
	got := play(t, &plan.Distinct{Input: relation("x:bigint")}, Options{MemoryLimit: 10_000}, script.String()+"close")
	expect(t, got, `error: DISTINCT holds more than 10000 bytes of rows (hint: select fewer columns, or put a window into FROM)`)
}

// Two rows have the same number exactly if their values are equal, whatever
// dictionaries their strings come from; retained keys keep their order.
func TestKeyTable(t *testing.T) {
	kinds := []types.Type{types.Bigint, types.Double, types.Varchar, types.Boolean}
	rapid.Check(t, func(t *rapid.T) {
		table := newKeyTable(kinds)
		numbers := map[string]uint32{}
		var batches []*batch.Batch
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			b := batch.New(kinds)
			for range rapid.IntRange(1, 100).Draw(t, "rows") {
				b.AppendRow(drawRow(t, kinds)...)
			}
			batches = append(batches, b)
			for i, id := range table.lookup(b.Cols, rowsOf(b), nil) {
				key := keyText(b, i)
				if want, ok := numbers[key]; ok && want != id || !ok && int(id) != len(numbers) {
					t.Fatalf("%s is number %d, not %d", key, id, want)
				}
				numbers[key] = id
			}
		}
		var keep []uint32 // every second one
		for id := uint32(0); int(id) < table.len(); id += 2 {
			keep = append(keep, id)
		}
		table.retain(keep)
		for _, b := range batches {
			for i, id := range table.lookup(b.Cols, rowsOf(b), nil) {
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
