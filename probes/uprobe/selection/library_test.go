package selection

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
)

// An executable may name anything as a library: a file that is not regular is never
// opened (opening a FIFO blocks until a writer opens it), and relative paths are not
// followed.
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
		if !NamesLibrary(f, filepath.Base(name)) {
			t.Fatalf("the program does not name %s", name)
		}
	}
	found := make(chan []string, 1)
	go func() { found <- Libraries(f, program) }()
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

// needsTwice returns a program that needs a library which another of its libraries
// needs, too, and would find elsewhere.
func needsTwice(t *testing.T) string {
	here, there := t.TempDir(), t.TempDir()
	library := func(to, text string, flags ...string) string {
		if err := os.Rename(testenv.CompileCText(t, text, append([]string{"-shared", "-fPIC"}, flags...)...), to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	own := library(filepath.Join(here, "libshared.so"), "int shared(void) { return 1; }", "-Wl,-soname,libshared.so")
	others := library(filepath.Join(there, "libshared.so"), "int shared(void) { return 2; }", "-Wl,-soname,libshared.so")
	user := library(filepath.Join(here, "libuser.so"), "int shared(void); int user(void) { return shared(); }",
		"-Wl,-soname,libuser.so", "-Wl,--no-as-needed", "-Wl,-rpath,"+there, others)
	return testenv.CompileCText(t, "int main(void) { return 0; }", "-Wl,--no-as-needed", "-Wl,-rpath,"+here, user, own)
}

// The libraries found for a program that is not running are those that the loader
// finds.
func TestNeededAgainstTheLoader(t *testing.T) {
	testenv.NeedProgram(t, "ldd")
	for _, path := range []string{testenv.NeedProgram(t, "ls"), testenv.NeedProgram(t, "bash"), testenv.NeedProgram(t, "git"), needsTwice(t)} {
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := map[string]bool{}
		for _, lib := range Libraries(f, path) {
			real, _ := filepath.EvalSymlinks(lib)
			got[real] = true
		}
		for _, line := range strings.Split(string(out), "\n") {
			// libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)
			if _, rest, ok := strings.Cut(line, "=> "); ok {
				lib, _, _ := strings.Cut(rest, " ")
				if real, err := filepath.EvalSymlinks(lib); err == nil && !got[real] {
					t.Errorf("%s: %s is missing in %v", path, real, got)
				}
			}
		}
	}
}

func TestConfiguredDirs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.conf", "# comment\n/one # and more\ninclude sub-*.conf\n/four\n")
	write("sub-a.conf", "/two\nrelative\n")
	write("sub-b.conf", "/three\ninclude main.conf\n") // the cycle must end
	got := configuredDirs(filepath.Join(dir, "main.conf"), 0, new(int))
	if diff := cmp.Diff([]string{"/one", "/two", "/three"}, got[:3]); diff != "" {
		t.Error(diff)
	}
	if got[len(got)-1] != "/four" || len(got) > 4*maxConfFiles {
		t.Errorf("%d directories, the last %s", len(got), got[len(got)-1])
	}
}
