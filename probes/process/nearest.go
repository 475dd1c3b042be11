package process

import (
	"cmp"
	"slices"
	"strings"
)

// nearest returns up to n different names that a misspelt name could mean,
// nearest first by edit distance; none that differ in more than a third.
func nearest(name string, names []string, n int) []string {
	type candidate struct {
		name     string
		distance int
	}
	var cs []candidate
	seen := map[string]bool{}
	for _, s := range names {
		if s == "" || seen[s] {
			continue
		}
		seen[s] = true
		if d := editDistance(strings.ToLower(name), strings.ToLower(s)); d <= max(len(name), len(s))/3 {
			cs = append(cs, candidate{s, d})
		}
	}
	slices.SortFunc(cs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range cs[:min(n, len(cs))] {
		out = append(out, c.name)
	}
	return out
}

// editDistance is Levenshtein's: the fewest bytes inserted, deleted or changed
// that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances of a's prefix to b's prefixes
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

func quoteList(names []string) string {
	return "'" + strings.Join(names, "', '") + "'"
}
