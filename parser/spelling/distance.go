package spelling

import "slices"

// Table holds the rows of the computation for reuse, so that repeated calls do not
// allocate. The zero value is ready for use, by one goroutine.
type Table struct{ rows [3][]int }

// Distance returns the smallest number of bytes to insert, delete or replace, or of
// neighbours to swap, that turn a into b (optimal string alignment), or most+1 if it
// exceeds most.
func Distance[A, B ~string | ~[]byte](t *Table, a A, b B, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	for i := range t.rows {
		t.rows[i] = slices.Grow(t.rows[i][:0], len(b)+1)[:len(b)+1]
	}
	before, above, row := t.rows[0], t.rows[1], t.rows[2]
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			v := min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				v = min(v, before[j-2]+1)
			}
			row[j] = v
			least = min(least, v)
		}
		if least > most { // later rows are no better, including swaps
			return most + 1
		}
		before, above, row = above, row, before
	}
	return min(above[len(b)], most+1)
}
