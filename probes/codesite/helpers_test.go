package codesite

import (
	"os"
	"path/filepath"
	"testing"

	"endoscope/probes/elf"
)

// moduleAt opens a file until the end of the test.
func moduleAt(t testing.TB, path string) *elf.Module {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := elf.Open(f, filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		f.Close()
	})
	return m
}

// indexOf returns the index of the one function with a name.
func indexOf(t testing.TB, m *elf.Module, name string) int {
	t.Helper()
	found := m.Find(name)
	if len(found) != 1 {
		t.Fatalf("Find(%q) has %d results, want 1; nearest: %q", name, len(found), m.Nearest(name, 3))
	}
	return found[0]
}
