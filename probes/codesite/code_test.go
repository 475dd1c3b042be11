package codesite

import (
	"os"
	"sync"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// All modules of a file share its analysis.
func TestAnalysisIsShared(t *testing.T) {
	path := testenv.CompileText(t, ".c", "__attribute__((noinline)) int work(int x) { return x * 3; } int main(int argc, char **) { return work(argc); }")
	var cache elf.Cache
	defer cache.Close()
	var found [4]*analysis
	var all sync.WaitGroup
	for k := range found {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := cache.Open(f, "target")
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		all.Go(func() {
			c := In(m)
			found[k] = c.analysis
			for _, i := range m.Find("work") {
				if _, err := c.EntrySite(i); err != nil {
					t.Error(err)
				}
				c.ReturnTrap(i)
			}
		})
	}
	all.Wait()
	for _, a := range found[1:] {
		if a != found[0] {
			t.Error("two modules of a file have analyses of their own")
		}
	}
}
