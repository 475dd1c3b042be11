package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Skip skips a test that cannot run here, for the given reason; with
// ENDOSCOPE_REQUIRE=all it fails the test.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("ENDOSCOPE_REQUIRE") == "all" {
		t.Fatalf("ENDOSCOPE_REQUIRE=all, but: "+format, args...)
	}
	t.Skipf(format, args...)
}

// NeedRoot skips unless the test runs as root (eBPF, other users' processes).
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
}

// NeedUprobes skips unless the kernel has uprobes and BTF and we may use them.
func NeedUprobes(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	for _, p := range []string{"/sys/kernel/btf/vmlinux", "/sys/bus/event_source/devices/uprobe"} {
		if _, err := os.Stat(p); err != nil {
			Skip(t, "needs a kernel with uprobes and BTF: %s is missing", p)
		}
	}
}

// NeedProgram returns the path of an installed program, including those outside
// PATH (PostgreSQL's).
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/" + name, "/usr/sbin/" + name} {
		if ps, _ := filepath.Glob(pattern); len(ps) > 0 {
			return ps[len(ps)-1]
		}
	}
	Skip(t, "needs %s installed", name)
	return ""
}

// CompileC builds a C source file (or, by its suffix, C++ or assembler) with
// gcc and returns the program's path. Flags go before the source.
func CompileC(t testing.TB, source string, flags ...string) string {
	t.Helper()
	cc := "gcc"
	if ext := filepath.Ext(source); ext == ".cc" || ext == ".cpp" {
		cc = "g++"
	}
	NeedProgram(t, cc)
	out := filepath.Join(t.TempDir(), "target")
	args := append(append([]string{}, flags...), "-o", out, source)
	if msg, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", cc, args, err, msg)
	}
	return out
}

// CompileCText is CompileC for source text.
func CompileCText(t testing.TB, text string, flags ...string) string {
	t.Helper()
	return CompileText(t, ".c", text, flags...)
}

// CompileText is CompileC for source text of a language given by its suffix:
// .c, .cc or .S.
func CompileText(t testing.TB, suffix, text string, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "target"+suffix)
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return CompileC(t, src, flags...)
}

// CompileGoText is CompileGo for the text of a package of one file.
func CompileGoText(t testing.TB, text string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module target\n\ngo 1.23\n", "main.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return CompileGo(t, dir, flags...)
}

// Output runs a tool and returns its output.
func Output(t testing.TB, tool string, args ...string) string {
	t.Helper()
	NeedProgram(t, tool)
	out, err := exec.Command(tool, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", tool, strings.Join(args, " "), err)
	}
	return string(out)
}

// CompileGo builds the main package in dir, without cgo, and returns the
// program's path.
func CompileGo(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	return compileGo(t, "CGO_ENABLED=0", dir, flags)
}

// CompileGoWithC is CompileGo for a package that may use cgo.
func CompileGoWithC(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	NeedProgram(t, "gcc")
	return compileGo(t, "CGO_ENABLED=1", dir, flags)
}

func compileGo(t testing.TB, with, dir string, flags []string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "target")
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), with)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, msg)
	}
	return out
}

// Long skips a test that takes many seconds in short mode.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: it is left out by -short")
	}
}
