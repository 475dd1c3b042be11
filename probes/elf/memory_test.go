package elf

import (
	"os"
	"runtime"
	"testing"

	"endoscope/probes/testenv"
)

// TestLoadMemory compares what opening a module and naming its functions allocates to what
// LoadMemory says.
func TestLoadMemory(t *testing.T) {
	paths := []string{"/bin/ls", "/bin/bash", "/usr/lib/x86_64-linux-gnu/libc.so.6", os.Args[0]}
	paths = append(paths, testenv.CompileText(t, ".c", "int f(void) { return 1; } int main(void) { return f(); }", "-O1"))
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		most := LoadMemory(f)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := Open(f, path)
		if err != nil {
			t.Fatal(err)
		}
		for range m.All() {
		}
		runtime.ReadMemStats(&after)
		m.Close()
		f.Close()
		t.Logf("%s: %d bytes allocated, %d said", path, after.TotalAlloc-before.TotalAlloc, most)
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > most {
			t.Errorf("%s: %d bytes were allocated, LoadMemory says %d", path, n, most)
		}
	}
}
