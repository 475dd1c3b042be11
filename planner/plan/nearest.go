package plan

import (
	"cmp"
	"slices"
	"strings"

	"endoscope/parser/spelling"
)

// Nearest returns up to n of names that are similar to name, ignoring case: those within an
// edit distance of a third of its length and those that contain it, nearest first. It is
// for short lists; the functions of a program have their own search (probes/elf).
func Nearest(name string, names []string, n int) []string {
	type candidate struct {
		name     string
		distance int
	}
	low := strings.ToLower(name)
	var found []candidate
	var table spelling.Table
	seen := map[string]bool{}
	for _, s := range names {
		if s == "" || name == "" || seen[s] {
			continue
		}
		seen[s] = true
		other := strings.ToLower(s)
		d := spelling.Distance(&table, low, other, len(low)+len(other))
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

// DidYouMean returns the hint that names similar to name are known; "" if there are none.
func DidYouMean(name string, names []string) string {
	if near := Nearest(name, names, 3); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}
