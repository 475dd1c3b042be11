package elf

import (
	"os"
	"path/filepath"
	"testing"
)

// openModule opens a file until the end of the test.
func openModule(t testing.TB, path string) *Module {
	t.Helper()
	return openWith(t, path, debugRoot)
}

// openWith is openModule with debug files looked up under root.
func openWith(t testing.TB, path, root string) *Module {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c, err := open(f, Search{Directories: []string{root}})
	if err != nil {
		t.Fatal(err)
	}
	return &Module{display: filepath.Base(path), contents: c, close: c.close}
}

// only returns the index of the one function with a name.
func only(t testing.TB, m *Module, name string) int {
	t.Helper()
	found := m.Find(name)
	if len(found) != 1 {
		t.Fatalf("Find(%q) has %d results, want 1; nearest: %q", name, len(found), m.Nearest(name, 3))
	}
	return found[0]
}

// codeOf returns the code of a function.
func codeOf(t testing.TB, m *Module, i int) []byte {
	t.Helper()
	code, err := m.image.Code(m.functions[i].Addr, m.Extent(i))
	if err != nil || len(code) == 0 {
		t.Fatalf("%s: %d bytes of code, %v", m.Function(i).Name, len(code), err)
	}
	return code
}
