package elf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

const cProgram = `
#include <stdio.h>
__attribute__((noinline)) int leaf(int x) { return x * 3 + 1; }
__attribute__((noinline)) static int helper(int x) { volatile int y = leaf(x); return y + leaf(y); }
int work(int x) { return helper(x) + helper(x + 1); }
int work_alias(int) __attribute__((alias("work")));
int data_not_code = 7;
int main(int argc, char **argv) { printf("%d\n", work(argc)); return 0; }
`

// readelf of binutils reads the same tables independently.
func TestEverySymbolOfRealProgramsIsFound(t *testing.T) {
	for _, name := range []string{"postgres", "redis-server", "ls", "gcc", "/lib/x86_64-linux-gnu/libc.so.6"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			path := name
			if !filepath.IsAbs(name) {
				path = testenv.NeedProgram(t, name)
			} else if _, err := os.Stat(path); err != nil {
				testenv.Skip(t, "%v", err)
			}
			m := openModule(t, path)
			checked := 0
			for line := range strings.Lines(testenv.Output(t, "readelf", "-sW", "--dyn-syms", path)) {
				// Num: Value Size Type Bind Vis Ndx Name
				f := strings.Fields(line)
				if len(f) < 8 || f[3] != "FUNC" || f[6] == "UND" {
					continue
				}
				addr, err := strconv.ParseUint(f[1], 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				symbol, _, _ := strings.Cut(f[7], "@")
				if isFragment(symbol) {
					continue
				}
				checked++
				if !slices.ContainsFunc(m.Find(symbol), func(i int) bool { return m.Function(i).Addr == addr }) {
					t.Errorf("no function %s at %#x", symbol, addr)
				}
			}
			var fns []Function
			for _, f := range m.All() {
				fns = append(fns, f)
			}
			if len(fns) < 20 {
				t.Errorf("only %d functions", len(fns))
			}
			for i := 1; i < len(fns); i++ {
				if fns[i-1].Addr >= fns[i].Addr {
					t.Fatalf("functions %d and %d are not in order or share an address", i-1, i)
				}
			}
			t.Logf("%d symbols found, %d functions", checked, len(fns))
		})
	}
}

func TestFunctionsOfACProgram(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-O0"}, {"-O2", "-fcf-protection=full"}, {"-O2", "-static"}, {"-O2", "-no-pie"}, {"-O2", "-Wl,-z,noseparate-code"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			path := testenv.CompileText(t, ".c", cProgram, flags...)
			m := openModule(t, path)
			if len(m.Find("data_not_code")) > 0 {
				t.Error("a variable is among the functions")
			}
			if got := m.BuildID(); !strings.Contains(testenv.Output(t, "readelf", "-n", path), "Build ID: "+got) || got == "" {
				t.Errorf("build id %q is not readelf's", got)
			}
			work := m.Function(only(t, m, "work"))
			if !slices.Contains(work.Aliases, "work_alias") || only(t, m, "work_alias") != only(t, m, "work") {
				t.Errorf("aliases of work are %q, want work_alias: two names at one address are one function", work.Aliases)
			}
			// The bytes at the file offset are those that objdump shows.
			for _, name := range []string{"leaf", "work", "main"} {
				i := only(t, m, name)
				want := fmt.Sprintf("%x:\t% x ", m.Function(i).Addr, codeOf(t, m, i)[:1])
				if !strings.Contains(testenv.Output(t, "objdump", "-d", "--disassemble="+name, path), want) {
					t.Errorf("%s: objdump does not show %q", name, want)
				}
			}
		})
	}
}

func TestStrippedProgramHasFunctionsOfTheUnwindTable(t *testing.T) {
	path := testenv.CompileText(t, ".c", cProgram, "-O2")
	full := openModule(t, path)
	stripped := testenv.CopyFile(t, path, path+".stripped")
	testenv.Output(t, "strip", stripped)
	m := openWith(t, stripped, t.TempDir())
	for _, name := range []string{"leaf", "helper", "work", "main"} {
		f := full.Function(only(t, full, name))
		if f.Synthetic {
			t.Errorf("%s is synthetic with its symbol table", name)
		}
		s := m.Function(only(t, m, fmt.Sprintf("sub_%x", f.Addr)))
		if !s.Synthetic || s.Addr != f.Addr || s.Offset != f.Offset || s.Size != f.Size {
			t.Errorf("%s is %+v when stripped, want %+v", name, s, f)
		}
	}
	// Start code has no return address, and linkage stubs are no functions.
	for _, f := range m.All() {
		if m.image.IsStub(f.Addr) || f.Addr == full.Function(only(t, full, "_start")).Addr {
			t.Errorf("%s is no function", f.Name)
		}
	}
}

func TestSeparateDebugFile(t *testing.T) {
	build := func(t *testing.T, flags ...string) (program, debug string) {
		path := testenv.CompileText(t, ".c", cProgram, append(flags, "-O2", "-g")...)
		debug = path + ".debug"
		testenv.Output(t, "objcopy", "--only-keep-debug", path, debug)
		testenv.Output(t, "strip", path)
		return path, debug
	}
	named := func(t *testing.T, program, root string) bool {
		m := openWith(t, program, root)
		if found := m.Find("helper"); len(found) == 1 {
			f := m.Function(found[0])
			if len(codeOf(t, m, found[0])) == 0 || f.Synthetic || f.Size == 0 {
				t.Errorf("helper is %+v", f)
			}
			return true
		}
		return false
	}
	t.Run("by build-id", func(t *testing.T) {
		program, debug := build(t)
		root := t.TempDir()
		if named(t, program, root) {
			t.Fatal("names without a debug file")
		}
		id := openWith(t, program, root).BuildID()
		dir := filepath.Join(root, ".build-id", id[:2])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		testenv.CopyFile(t, debug, filepath.Join(dir, id[2:]+".debug"))
		if !named(t, program, root) {
			t.Error("the debug file was not used")
		}
	})
	t.Run("by path", func(t *testing.T) {
		program, debug := build(t)
		first, second := t.TempDir(), t.TempDir()
		at := filepath.Join(second, program+".debug")
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		testenv.CopyFile(t, debug, at)
		var cache Cache
		defer cache.Close()
		f, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, c := range []struct {
			search Search
			want   bool
		}{{Search{}, false}, {Search{Directories: []string{first, second}}, true}, {Search{Directories: []string{first}}, false}, {Search{Directories: []string{first, second}}, true}} {
			m, err := cache.With(c.search).Open(f, "program")
			if err != nil {
				t.Fatal(err)
			}
			if got := len(m.Find("helper")) > 0; got != c.want {
				t.Errorf("%q: helper is named: %v", c.search.Directories, got)
			}
			m.Close()
		}
	})
	t.Run("by debuglink beside the program", func(t *testing.T) {
		program, debug := build(t)
		testenv.Output(t, "objcopy", "--add-gnu-debuglink="+debug, program)
		if !named(t, program, t.TempDir()) {
			t.Error("the debug file was not used")
		}
	})
	t.Run("by debuglink without a build-id", func(t *testing.T) {
		program, debug := build(t, "-Wl,--build-id=none")
		testenv.Output(t, "objcopy", "--add-gnu-debuglink="+debug, program)
		if id := openWith(t, program, t.TempDir()).BuildID(); id != "" || !named(t, program, t.TempDir()) {
			t.Errorf("build-id %q; the debug file was not used", id)
		}
		f, err := os.OpenFile(debug, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		if named(t, program, t.TempDir()) {
			t.Error("a debug file with another checksum was used")
		}
	})
	t.Run("of another build", func(t *testing.T) {
		program, debug := build(t)
		testenv.Output(t, "objcopy", "--add-gnu-debuglink="+debug, program)
		_, other := build(t, "-DOTHER", "-fno-pie", "-no-pie")
		testenv.CopyFile(t, other, debug)
		if named(t, program, t.TempDir()) {
			t.Error("a debug file with another build-id was used")
		}
		if _, otherBuild, stripped := openWith(t, program, t.TempDir()).Stripped(); otherBuild != debug || !stripped {
			t.Errorf("the debug file of another build is %q (stripped: %v), want %s", otherBuild, stripped, debug)
		}
	})
}

func TestOpenRefusesByName(t *testing.T) {
	elf := func(class, data byte, machine uint16) []byte {
		b := make([]byte, 128)
		copy(b, "\x7fELF")
		b[4], b[5], b[6], b[16] = class, data, 1, 3
		if data == 1 {
			b[18], b[19] = byte(machine), byte(machine>>8)
		} else {
			b[19], b[18] = byte(machine), byte(machine>>8)
		}
		return b
	}
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"script", []byte("#!/bin/sh\necho hello, this is a script\n"), "script: not an ELF file"},
		{"empty", nil, "empty: not an ELF file"},
		{"i386", elf(1, 1, 3), "i386: 32-bit code cannot be probed"},
		{"aarch64", elf(2, 1, 183), "aarch64: code for AARCH64 cannot be probed, only x86-64"},
		{"s390", elf(2, 2, 22), "s390: code for S390 cannot be probed, only x86-64"},
	} {
		path := filepath.Join(t.TempDir(), test.name)
		if err := os.WriteFile(path, test.content, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := Open(f, test.name); err == nil || err.Error() != test.want {
			t.Errorf("Open: %v, want %s", err, test.want)
		}
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := Open(null, "null"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Open of a device: %v", err)
	}
}

func TestObjectFileIsRefused(t *testing.T) {
	path := testenv.CompileText(t, ".c", "int f(void) { return 1; }", "-c")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Open(f, "f.o"); err == nil || !strings.Contains(err.Error(), "neither a program nor a shared library") {
		t.Errorf("Open: %v", err)
	}
}
