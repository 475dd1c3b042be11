package uprobe

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// An executable may name anything as a library: what is no regular file is never
// opened (that of a FIFO waits for who writes it), and relative paths are not ours
// to follow.
func TestNeededOpensRegularFilesOnly(t *testing.T) {
	testenv.NeedProgram(t, "gcc")
	dir := t.TempDir()
	fifo := filepath.Join(dir, "libfifo.so")
	source := testenv.CompileCText(t, "int f(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,"+fifo)
	byName := testenv.CompileCText(t, "int g(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,libnamed.so")
	relative := testenv.CompileCText(t, "int h(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,./librelative.so")
	program := testenv.CompileCText(t, "int main(void) { return 0; }", "-Wl,--no-as-needed", "-Wl,-rpath,"+dir, source, byName, relative)
	for _, name := range []string{fifo, filepath.Join(dir, "libnamed.so")} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{fifo, "libnamed.so", "./librelative.so"} {
		if !namesLibrary(f, filepath.Base(name)) {
			t.Fatalf("the program does not name %s", name)
		}
	}
	found := make(chan []string, 1)
	go func() { found <- needed(f, program) }()
	select {
	case list := <-found:
		if !slices.ContainsFunc(list, func(path string) bool { return filepath.Base(path) == "libc.so.6" }) {
			t.Errorf("libc is missing in %v", list)
		}
		for _, name := range []string{"libnamed.so", "librelative.so"} {
			if slices.ContainsFunc(list, func(path string) bool { return filepath.Base(path) == name }) {
				t.Errorf("%s is in %v", name, list)
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("needed hangs")
	}
}
