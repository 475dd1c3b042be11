package help

import (
	"errors"
	"strings"
	"testing"

	"endoscope/planner/catalog"
)

// A name finds a topic, an entry of the reference, a section or a column.
func TestFind(t *testing.T) {
	for name, title := range map[string]string{
		"joins":             "# Joins",
		"JOINS":             "# Joins",
		"jo":                "# Joins",
		"join":              "# Joins",
		"trigger":           "# Triggers",
		"stack":             "# Stacks",
		"quantile":          "# QUANTILE",
		"QUANTILE":          "# QUANTILE",
		"function_duration": "# function_duration",
		"sys.queries":       "# sys.queries",
		"max_overhead":      "# max_overhead",
		"kernel":            "# kernel",
		"WINDOW JOIN":       "# WINDOW JOIN",
		"window  join":      "# WINDOW JOIN",
		"tumble":            "# TUMBLE",
		"order by":          "# ORDER BY",
		"having":            "# GROUP BY, HAVING",
		"self_time":         "# self_time",
		"receiver":          "# receiver",
		"order":             "# ORDER BY",
		"create":            "# CREATE MODEL, DROP MODEL",
		"drop stream":       "# CREATE STREAM, DROP STREAM",
		"USE;":              "# USE",
		"gap":               "# ENTER, LEAVE, UNWIND, GAP",
		"flame graph":       "# Flame graphs",
		"flamegraph":        "# Flame graphs",
		"window":            "# Windows",
		"consistent":        "# CONSISTENT",
		"split_part":        "# split_part",
		"automaton":         "# AUTOMATON",
		"||":                "# ||",
	} {
		text, err := Find(name)
		if got, _, _ := strings.Cut(text, "\n"); err != nil || got != title {
			t.Errorf("help %s: %q, %v; want %q", name, got, err, title)
		}
	}
}

func TestFindHints(t *testing.T) {
	for name, hint := range map[string]string{
		"quantil":     "did you mean quantile or sketch_quantile?",
		"tigers":      "did you mean triggers?",
		"p":           "did you mean pictures or processes or python or php or probes or permissions or placement?",
		"ptrace":      "it occurs in variables, containers, safety, daemon",
		"frobnicated": "",
		"--connect":   "it occurs in command, top, web, doctor, containers, others",
		"":            "",
	} {
		_, err := Find(name)
		var missing *NotFoundError
		if !errors.As(err, &missing) || missing.Hint != hint {
			t.Errorf("help %s: %v, hint %q; want %q", name, err, missing.Hint, hint)
		}
	}
}

// The entry of a stream contains everything in the catalog.
func TestStreamEntry(t *testing.T) {
	text, err := Find("variable_value")
	if err != nil {
		t.Fatal(err)
	}
	s := catalog.Find("variable_value")
	for _, part := range []string{s.How, s.Cost, s.Needs, "SAMPLE reads it, too", "needs a target", "See [queries](queries.md)"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
		if _, err := Find(name); err != nil {
			t.Errorf("%s is listed and not found: %v", name, err)
		}
	}
	for _, name := range []string{"start", "joins", "quantile", "function_call", "sys.drops", "max_string", "nlevel"} {
		if !seen[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}
