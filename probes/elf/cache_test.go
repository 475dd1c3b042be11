package elf

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"endoscope/probes/testenv"
)

func openCached(t *testing.T, c *Cache, path, display string) *Module {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the cache must not depend on it
	m, err := c.Open(f, display)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCacheReadsAFileOnce(t *testing.T) {
	path := testenv.CompileText(t, ".c", cProgram, "-O2")
	var c Cache
	defer c.Close()
	a, b := openCached(t, &c, path, "a"), openCached(t, &c, path, "b")
	if a.contents != b.contents {
		t.Error("the file was read twice")
	}
	if a.Name() != "a" || b.Name() != "b" {
		t.Errorf("names %q and %q", a.Name(), b.Name())
	}
	a.Close()
	a.Close()
	// b still reads code through the cache's own descriptor.
	codeOf(t, b, only(t, b, "work"))
	// Another file at the same path is another module.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testenv.CopyFile(t, testenv.CompileText(t, ".c", "int other(void) { return 1; } int main(void) { return other(); }"), path)
	if d := openCached(t, &c, path, "d"); len(d.Find("other")) != 1 {
		t.Error("the new file has the functions of the old one")
	}
}

func TestCacheIsBounded(t *testing.T) {
	program, err := os.ReadFile(testenv.CompileText(t, ".c", "int main(void) { return 0; }"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var c Cache
	var held []*Module
	const files, inUse = cacheModules + 20, 5
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		m := openCached(t, &c, path, "m")
		if i < inUse {
			held = append(held, m)
		} else {
			m.Close()
		}
	}
	if n := c.recent.Len(); n > cacheModules || n != len(c.entries) {
		t.Errorf("%d modules in the cache, %d entries", n, len(c.entries))
	}
	for _, m := range held { // in use, hence never dropped
		codeOf(t, m, only(t, m, "main"))
	}
	c.Close()
	if n := c.recent.Len(); n != inUse {
		t.Errorf("%d modules after Close, %d in use", n, inUse)
	}
	for _, m := range held {
		m.Close()
	}
	c.Close()
	if c.recent.Len() != 0 {
		t.Errorf("%d modules are left", c.recent.Len())
	}
}

func TestCacheKeepsNoFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c Cache
	if _, err := c.Open(f, "text"); err == nil || err.Error() != "text: not an ELF file" {
		t.Errorf("Open: %v", err)
	}
	if c.recent.Len() != 0 {
		t.Error("the failure is kept")
	}
}

func TestCacheConcurrently(t *testing.T) {
	path := testenv.CompileText(t, ".c", cProgram, "-O2")
	var c Cache
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				f, err := os.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := c.Open(f, "m")
				f.Close()
				if err != nil {
					t.Error(err)
					return
				}
				for _, i := range m.Find("work") {
					if _, ok := m.UnwindRule(m.functions[i].Addr); !ok {
						t.Error("work has no unwind rule")
					}
				}
				m.Nearest("wrok", 2)
				m.Close()
			}
		})
	}
	all.Wait()
	c.Close()
	if c.recent.Len() != 0 {
		t.Errorf("%d modules are left", c.recent.Len())
	}
}

// The caches of other searches are few; those that were used last are kept.
func TestCacheViews(t *testing.T) {
	var c Cache
	defer c.Close()
	view := func(i int) *Cache { return c.With(Search{Directories: []string{fmt.Sprint("/", i)}}) }
	first := view(0)
	if first == &c || c.With(Search{}) != &c || view(0) != first || first.With(Search{Directories: []string{"/0"}}) != first {
		t.Error("a search has not one cache of its own")
	}
	for i := 1; i < maxViews; i++ {
		view(i)
	}
	second := view(1)
	view(0)
	for i := maxViews; i < 2*maxViews-2; i++ {
		view(i)
	}
	if len(c.views) != maxViews || view(0) != first || view(1) != second {
		t.Errorf("%d views; those that were used last are lost", len(c.views))
	}
}
