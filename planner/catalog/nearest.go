package catalog

import (
	"sort"
	"strings"
)

// Nearest returns up to n of names that a user may have meant by name: those
// within an edit distance of a third of its length, and those that contain it,
// nearest first.
func Nearest(name string, names []string, n int) []string {
	type scored struct {
		s string
		d int
	}
	low := strings.ToLower(name)
	var found []scored
	for _, s := range names {
		d := distance(low, strings.ToLower(s))
		if d <= max(1, len(name)/3) || len(low) >= 3 && strings.Contains(strings.ToLower(s), low) {
			found = append(found, scored{s, d})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].d < found[j].d })
	if len(found) > n {
		found = found[:n]
	}
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.s
	}
	return out
}

// distance is the Levenshtein distance of a and b, with a swap of neighbours
// counted once.
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
