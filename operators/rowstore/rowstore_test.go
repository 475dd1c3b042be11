package rowstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/types"
)

// storeTypes has a column of each physical layout.
var storeTypes = []types.Type{types.Bigint, types.Double, types.Varchar, types.Boolean, types.List}

func rowText(b *batch.Batch, row int) string {
	s := ""
	for c := range b.Cols {
		s += testplan.Cell(b.Cols[c].Value(row)) + " "
	}
	return s
}

// Slots return the values stored in them, though slots are freed and reused and
// strings arrive in ever new dictionaries.
func TestRowStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := New(storeTypes, 1<<30, "", "")
		want := map[int32]string{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			b := batch.New(storeTypes)
			for range rapid.IntRange(1, 20).Draw(t, "rows") {
				row := testplan.DrawRow(t, storeTypes[:4])
				list := types.ListOf([]types.Value{types.Str(fmt.Sprint(b.N))})
				if rapid.Bool().Draw(t, "no list") {
					list = types.NullOf(types.List)
				}
				b.AppendRow(append(row, list)...)
			}
			slots, err := st.Add(b.Cols, batch.RowsOf(b), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range slots {
				if _, taken := want[s]; taken {
					t.Fatalf("slot %d is given twice", s)
				}
				want[s] = rowText(b, i)
			}
			var gone []int32
			for s := range want {
				if rapid.IntRange(0, 2).Draw(t, "free") == 0 {
					gone = append(gone, s)
					delete(want, s)
				}
			}
			st.Free(gone)
			if st.Live() != len(want) {
				t.Fatalf("%d rows live, want %d", st.Live(), len(want))
			}
			for s, text := range want {
				out := batch.New(storeTypes)
				st.Gather(out, []int32{s})
				if got := rowText(out, 0); got != text {
					t.Fatalf("slot %d: %s, want %s", s, got, text)
				}
			}
		}
	})
}

// The strings of rows freed long ago are dropped, those of live rows are not;
// freed memory is not counted.
func TestRowStoreForgetsStrings(t *testing.T) {
	kinds := []types.Type{types.Varchar, types.List}
	st := New(kinds, 1<<30, "", "")
	var kept []int32
	for i := range 200 {
		b := batch.New(kinds)
		for j := range batch.MaxRows {
			b.AppendRow(types.Str(fmt.Sprint(i, " ", j)), types.ListOf([]types.Value{types.Int(1)}))
		}
		slots, err := st.Add(b.Cols, batch.RowsOf(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, slots[7])
		st.Free(slices.Delete(slots, 7, 8))
	}
	if n := st.Tr[0].to.Len(); n > MaxDict+batch.MaxRows {
		t.Errorf("%d strings for %d rows", n, st.Live())
	}
	out := batch.New(kinds)
	st.Gather(out, kept)
	for i := range kept {
		if got, want := out.Cols[0].Value(i).S, fmt.Sprint(i, " 7"); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
	if want := 200 * anyBytes([]types.Value{types.Int(1)}); st.Any != want {
		t.Errorf("lists of %d bytes, want %d", st.Any, want)
	}
	st.Free(kept)
	if st.Any != 0 || st.Slots != 0 || st.Tr[0].to.Len() > MaxDict {
		t.Errorf("empty store holds %d bytes of lists, %d slots, %d strings", st.Any, st.Slots, st.Tr[0].to.Len())
	}
}

// With so many keys some share all bits of their hash, and are still
// distinguished.
func TestKeyTableComparesKeys(t *testing.T) {
	const n = 300_000
	table := NewKeyTable([]types.Type{types.Bigint})
	rng := rand.New(rand.NewPCG(1, 2))
	b := batch.New(table.types)
	b.Cols[0].Int = make([]int64, batch.MaxRows)
	b.N = batch.MaxRows
	shared := map[uint32]bool{}
	collisions := 0
	for first := uint32(0); first < n; first += batch.MaxRows {
		for i := range b.Cols[0].Int {
			b.Cols[0].Int[i] = rng.Int64()
		}
		for i, id := range table.Lookup(b.Cols, batch.RowsOf(b), nil) {
			if id != first+uint32(i) {
				t.Fatalf("key %d is taken for key %d", first+uint32(i), id)
			}
			if shared[table.hash[id]] {
				collisions++
			}
			shared[table.hash[id]] = true
		}
	}
	if collisions == 0 {
		t.Error("no two keys share a hash: this tests nothing")
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{100: "100 bytes", 64 << 10: "64 KiB", 512 << 20: "512 MiB", 20 << 30: "20 GiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
