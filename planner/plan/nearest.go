package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to n of names that a user may have meant by name, in any
// case: those within an edit distance of a third of its length and those that
// contain it, nearest first. It is for lists of tens of names; the functions of
// a program have a search of their own (probes/elf).
func Nearest(name string, names []string, n int) []string {
	type candidate struct {
		name     string
		distance int
	}
	low := strings.ToLower(name)
	var found []candidate
	seen := map[string]bool{}
	for _, s := range names {
		if s == "" || name == "" || seen[s] {
			continue
		}
		seen[s] = true
		other := strings.ToLower(s)
		d := editDistance(low, other)
		if d <= max(1, len(name)/3) || len(low) >= 3 && strings.Contains(other, low) {
			found = append(found, candidate{s, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range found[:min(n, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// editDistance is the fewest bytes inserted, deleted or changed, or neighbours
// swapped, that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
