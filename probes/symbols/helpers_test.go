package symbols

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// openModule opens a file for the length of a test.
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
	c, err := open(f, root)
	if err != nil {
		t.Fatal(err)
	}
	return &Module{name: filepath.Base(path), contents: c, close: c.close}
}

// only is the index of the one function with a name.
func only(t testing.TB, m *Module, name string) int {
	t.Helper()
	found := m.Find(name)
	if len(found) != 1 {
		t.Fatalf("Find(%q) has %d results, want 1; nearest: %q", name, len(found), m.Nearest(name, 3))
	}
	return found[0]
}

// compile builds a program from source text; ext (.c, .cc, .S) chooses how.
func compile(t testing.TB, ext, text string, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "target"+ext)
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testenv.CompileC(t, src, flags...)
}

// compileGo builds a Go program from the text of its one file.
func compileGo(t testing.TB, text string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module target\n\ngo 1.23\n", "main.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return testenv.CompileGo(t, dir, flags...)
}

// run runs a tool and returns its output.
func run(t testing.TB, tool string, args ...string) string {
	t.Helper()
	testenv.NeedProgram(t, tool)
	out, err := exec.Command(tool, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", tool, strings.Join(args, " "), err)
	}
	return string(out)
}

// copyFile copies a program, so that tools may change the copy.
func copyFile(t testing.TB, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}
