package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryRule holds each rule to being explained, and to firing in at least
// one golden plan of the planner.
func TestEveryRule(t *testing.T) {
	files, err := filepath.Glob("../testdata/plan/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden plans: %v", err)
	}
	fired := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(strings.TrimSpace(line), "rules: "); ok {
				for _, name := range strings.Split(list, ", ") {
					fired[name] = true
				}
			}
		}
	}
	all := Local
	for _, g := range Global {
		all = append(all, g.Rule)
	}
	seen := map[string]bool{}
	for _, r := range all {
		if r.Why == "" || r.Counter == "" {
			t.Errorf("%s does not say why, or where it must not fire", r.Name)
		}
		if seen[r.Name] {
			t.Errorf("two rules are called %s", r.Name)
		}
		seen[r.Name] = true
		if !fired[r.Name] {
			t.Errorf("%s fires in no golden plan", r.Name)
		}
		delete(fired, r.Name)
	}
	for name := range fired {
		t.Errorf("a golden plan names the rule %s, which does not exist", name)
	}
}
