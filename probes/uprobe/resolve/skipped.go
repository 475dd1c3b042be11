package resolve

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Skipped is a selected function that is not probed. The reason is printed after "not
// monitored:".
type Skipped struct{ Name, Reason string }

const (
	MaxNamed   = 3 // functions named per reason in a notice
	maxReasons = 6 // reasons in a notice
)

// special matches the parts in which reasons of the same kind differ: an instruction,
// its place, and what to probe instead.
var special = regexp.MustCompile("`[^`]*`|\\+[0-9]+|; probe .*")

// likenessOf returns the part that a reason has in common with those of other
// functions.
func likenessOf(reason string) string {
	return special.ReplaceAllStringFunc(reason, func(s string) string {
		if s[0] == ';' {
			return ""
		}
		return "..."
	})
}

// NotMonitored returns the notice about functions that are not probed.
func NotMonitored(list []Skipped) string {
	noun := "functions are"
	if len(list) == 1 {
		noun = "function is"
	}
	return fmt.Sprintf("%d %s not monitored: %s", len(list), noun, listSkipped(list))
}

// listSkipped lists the reasons why functions are not probed: each reason once, the
// most frequent first, with the first names and the number of the rest.
func listSkipped(list []Skipped) string {
	type group struct {
		reason string
		names  []string
	}
	var groups []*group
	byLikeness := map[string]*group{}
	for _, s := range list {
		like := likenessOf(s.Reason)
		g := byLikeness[like]
		if g == nil {
			g = &group{reason: s.Reason}
			byLikeness[like] = g
			groups = append(groups, g)
		} else if g.reason != s.Reason {
			g.reason = like
		}
		if !slices.Contains(g.names, s.Name) {
			g.names = append(g.names, s.Name)
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(b.names), len(a.names)) })
	var parts []string
	more := 0
	for i, g := range groups {
		if i >= maxReasons {
			more += len(g.names)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", nameSome(g.names), g.reason))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more for other reasons", more))
	}
	return strings.Join(parts, "; ")
}

// nameSome lists the first few names and counts the rest.
func nameSome(names []string) string {
	if len(names) <= MaxNamed+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:MaxNamed], ", "), len(names)-MaxNamed)
}
