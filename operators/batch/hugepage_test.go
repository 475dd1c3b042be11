package batch

import "testing"

// TestInHugePages holds the advice to changing nothing that can be seen,
// whatever the table's size and the size of its entries.
func TestInHugePages(t *testing.T) {
	for _, n := range []int{0, 1, 1000, hugePage, 3*hugePage + 12345} {
		table := make([]byte, n)
		if got := InHugePages(table); len(got) != n || n > 0 && &got[0] != &table[0] {
			t.Errorf("a table of %d bytes became another", n)
		}
		wide := InHugePages(make([][3]uint64, n/24))
		for i := range wide {
			wide[i][2] = uint64(i)
		}
		for i := range wide {
			if wide[i] != [3]uint64{0, 0, uint64(i)} {
				t.Fatalf("entry %d of %d is %v", i, len(wide), wide[i])
			}
		}
	}
}
