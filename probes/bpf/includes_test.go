package bpf

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestIncludesHaveNoCycles holds that a header includes what it uses and is never
// included by what it includes: a guard would hide the cycle, and the order of
// definitions would depend on which file comes first.
func TestIncludesHaveNoCycles(t *testing.T) {
	include := regexp.MustCompile(`(?m)^#include "(.+)"$`)
	uses := map[string][]string{}
	for _, pattern := range []string{"*.h", "*.bpf.c"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range include.FindAllStringSubmatch(string(text), -1) {
				uses[name] = append(uses[name], m[1])
			}
		}
	}
	if len(uses) < 20 {
		t.Fatalf("only %d files include others", len(uses))
	}
	var visit func(name string, path []string)
	done := map[string]bool{}
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("includes form a cycle: %v", append(path, name))
		}
		if done[name] {
			return
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%v: %v", path, err)
		}
		for _, u := range uses[name] {
			visit(u, append(path, name))
		}
		done[name] = true
	}
	for name := range uses {
		visit(name, nil)
	}
}
