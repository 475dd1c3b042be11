package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// CompileC builds a C source file (or, by its suffix, C++ or assembler) with
// gcc and returns the program's path. Flags go before the source.
func CompileC(t testing.TB, source string, flags ...string) string {
	t.Helper()
	if strings.HasPrefix(source, os.TempDir()) {
		out := filepath.Join(t.TempDir(), "target")
		compileC(t, out, source, flags)
		return out
	}
	parts := []string{source, contents(t, filepath.Dir(source))}
	return cached(t, "C", parts, flags, func(dir, out string) { compileC(t, out, source, flags) })
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
	return cached(t, "text", []string{suffix, text}, flags, func(dir, out string) {
		source := filepath.Join(dir, "target"+suffix)
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		compileC(t, out, source, flags)
	})
}

func compileC(t testing.TB, out, source string, flags []string) {
	t.Helper()
	cc := "gcc"
	if ext := filepath.Ext(source); ext == ".cc" || ext == ".cpp" {
		cc = "g++"
	}
	NeedProgram(t, cc)
	args := append(slices.Clone(flags), "-o", out, source)
	if msg, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", cc, args, err, msg)
	}
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

// CompileGoText is CompileGo for the text of a package of one file.
func CompileGoText(t testing.TB, text string, flags ...string) string {
	t.Helper()
	return cached(t, "Go text", []string{text}, flags, func(dir, out string) {
		for name, content := range map[string]string{"go.mod": "module target\n\ngo 1.23\n", "main.go": text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		goBuild(t, "CGO_ENABLED=0", dir, out, flags)
	})
}

func compileGo(t testing.TB, with, dir string, flags []string) string {
	t.Helper()
	if strings.HasPrefix(dir, os.TempDir()) {
		out := filepath.Join(t.TempDir(), "target")
		goBuild(t, with, dir, out, flags)
		return out
	}
	return cached(t, "Go", []string{dir, with, contents(t, dir)}, flags, func(_, out string) { goBuild(t, with, dir, out, flags) })
}

// goBuild builds a package, with a variable of the environment.
func goBuild(t testing.TB, with, dir, out string, flags []string) {
	t.Helper()
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", out, "."})...)
	cmd.Dir = dir
	if with != "" {
		cmd.Env = append(os.Environ(), with)
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, msg)
	}
}

var commands sync.Map // paths of programs, by their packages' folders

// Command builds a command of this module, the main package in dir, and returns
// the path of the program, which has the name of the folder and is not to be
// changed: all tests use the same.
func Command(t testing.TB, dir string) string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if program, found := commands.Load(dir); found {
		return program.(string)
	}
	folder, unlock := lockFolder(t, "command "+dir)
	defer unlock()
	program := filepath.Join(folder, filepath.Base(dir))
	goBuild(t, "", dir, program, nil) // links nothing where the program is up to date
	commands.Store(dir, program)
	return program
}
