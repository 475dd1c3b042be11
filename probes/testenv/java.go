package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ForgetJava removes, when the test ends, the files that a killed Java machine
// leaves in /tmp: its attach socket and its perf map. A later process with the
// same pid would appear to own them.
func ForgetJava(t testing.TB, pid int) {
	t.Cleanup(func() {
		os.Remove(fmt.Sprintf("/tmp/.java_pid%d", pid))
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid))
	})
}

// CompileJava compiles a source file and returns the folder of its classes,
// which other tests use too.
func CompileJava(t testing.TB, source string) string {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	return CompileJavaText(t, strings.TrimSuffix(filepath.Base(source), ".java"), string(text))
}

// CompileJavaText is CompileJava for the text of a public class.
func CompileJavaText(t testing.TB, class, text string) string {
	t.Helper()
	javac := NeedProgram(t, "javac")
	return builtFolder(t, fmt.Sprintf("Java %q %q %q", class, text, compilers()), func(dir string) {
		source := filepath.Join(dir, class+".java")
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(javac, "-d", dir, source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
