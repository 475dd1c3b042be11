package resolve

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Skipped is a selected function that is left alone. The reason is to be read
// after "not monitored:".
type Skipped struct{ Name, Reason string }

const (
	MaxNamed   = 3 // functions that a notice names for a reason
	maxReasons = 6 // that it gives
)

// special is what differs between reasons that are the same: an instruction,
// where it is, and what to probe instead.
var special = regexp.MustCompile("`[^`]*`|\\+[0-9]+|; probe .*")

// likenessOf is what a reason has in common with those of other functions.
func likenessOf(reason string) string {
	return special.ReplaceAllStringFunc(reason, func(s string) string {
		if s[0] == ';' {
			return ""
		}
		return "..."
	})
}

// NotMonitored is the notice of functions that are left alone.
func NotMonitored(list []Skipped) string {
	noun := "functions are"
	if len(list) == 1 {
		noun = "function is"
	}
	return fmt.Sprintf("%d %s not monitored: %s", len(list), noun, listSkipped(list))
}

// listSkipped says why functions are left alone: each reason once, that of most
// functions first, with the first few of their names and the number of the rest.
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
