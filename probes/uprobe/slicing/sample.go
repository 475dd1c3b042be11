package slicing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SampleRemark says, for the footer, of which functions rows are a sample, and how large a part of
// the calls that is: the share of the program's progress that slices have seen. The functions of
// which least was seen are named. later is how many of the functions that are observed all the time
// were observed in slices first, and missing how many calls of slices had not ended in time.
func SampleRemark(list []Stratum, later int, missing int64) string {
	type function struct {
		name  string
		share float64
	}
	var sliced []function
	always := 0
	for _, s := range list {
		if s.Always {
			always += len(s.Functions)
			continue
		}
		for _, name := range s.Functions {
			sliced = append(sliced, function{name, s.Share})
		}
	}
	if len(sliced) == 0 && later == 0 {
		return "the rows are all calls"
	}
	slices.SortStableFunc(sliced, func(a, b function) int { return cmp.Compare(a.share, b.share) })
	var parts []string
	for _, f := range sliced[:min(mostNamed, len(sliced))] {
		parts = append(parts, fmt.Sprintf("%s (%.2g %% of the program's progress was seen)", f.name, 100*f.share))
	}
	text := "the rows are a sample of the calls"
	if len(parts) > 0 {
		text += " of " + strings.Join(parts, ", ")
	}
	if rest := sliced[len(parts):]; len(rest) > 0 {
		text += fmt.Sprintf(" and %d more (%.2g to %.2g %%)", len(rest), 100*rest[0].share, 100*rest[len(rest)-1].share)
	}
	if always > later {
		text += fmt.Sprintf(", and all calls of %s", functions(always-later))
	}
	if later > 0 {
		text += fmt.Sprintf(", and of %s until these turned out to be rare", functions(later))
	}
	if missing > 0 {
		text += fmt.Sprintf("; missing are %d of their calls, which had not ended soon after their slice", missing)
	}
	return text
}
