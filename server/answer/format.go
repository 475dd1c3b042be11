package answer

import (
	"fmt"
	"strings"
	"time"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// FormatNs prints a number of ns with three digits.
func FormatNs(x float64) string {
	unit := 1.0
	for x/unit >= 1000 {
		unit *= 10
	}
	return time.Duration(float64(int64(x/unit+0.5)) * unit).String()
}

// ColumnsOf returns the columns of a result with a schema.
func ColumnsOf(s types.Schema) []wire.Column {
	out := make([]wire.Column, len(s.Fields))
	for i, f := range s.Fields {
		out[i] = wire.Column{Name: f.Name, Type: f.Type, Bound: f.Bound}
	}
	return out
}

// FormatIDs formats ids of queries.
func FormatIDs(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// Distinct keeps the first of equal texts.
func Distinct(texts []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range texts {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// Plural formats a number of things.
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
