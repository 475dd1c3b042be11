package server_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// TestDebugFiles reads arguments by name where the debug information is in a file of its
// own, and says what is missing where there is none, or where it is in pieces.
func TestDebugFiles(t *testing.T) {
	testenv.NeedUprobes(t)
	objcopy := testenv.NeedProgram(t, "objcopy")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	source := filepath.Join("testdata", "values", "types.c")
	build := func(flags ...string) string {
		return testenv.CompileC(t, source, append([]string{"-O2", "-Wl,--build-id", "-rdynamic"}, flags...)...)
	}
	const query = "SELECT args.i, args.l FROM function_start WHERE function_name = 'integers'"

	linked := build("-g")
	debug := linked + ".debug"
	run(objcopy, "--only-keep-debug", linked, debug)
	run(objcopy, "--strip-all", "--add-gnu-debuglink="+debug, linked)
	w := startWaiting(t, linked)
	s := newSession(t, wire.Options{PID: w.pid()})
	described := ask(t, s, "DESCRIBE FUNCTION integers").rows[0]
	said := strings.Join(described[len(described)-3:], "\n")
	want := "long int integers(signed char c, short int s, int i, long int l, unsigned char uc, short unsigned int us)\nc: rdi; s: rsi; i: rdx; l: rcx; uc: r8; us: r9; retval: rax\n"
	if !strings.HasPrefix(said, want) || !strings.Contains(said, "types.c:") {
		t.Errorf("DESCRIBE FUNCTION said\n%s\nwant\n%s", said, want)
	}
	q := start(t, s, query)
	w.goOn()
	row := []string{"-2000000000", "-9000000000000000000"}
	if diff := cmp.Diff([][]string{row, row, row}, read(t, q).rows); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	w = startWaiting(t, build("-s"))
	_, err := newSession(t, wire.Options{PID: w.pid()}).Execute(t.Context(), query)
	if said := fmt.Sprint(err); !strings.Contains(said, "has no debug information") || !strings.Contains(said, "str(arg0)") {
		t.Errorf("compiled with -s: %s", said)
	}
}

// TestSplitDebugInfo reads arguments by name where the debug information is in .dwo files, as
// two compilers write them, and in a package of these; and says what is missing where there is
// none of both.
func TestSplitDebugInfo(t *testing.T) {
	testenv.NeedUprobes(t)
	const query = "SELECT args.i, args.l FROM function_start WHERE function_name = 'integers'"
	row := []string{"-2000000000", "-9000000000000000000"}
	source, err := filepath.Abs(filepath.Join("testdata", "values", "types.c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range [][]string{{"gcc", "-gdwarf-4", "dwp"}, {"gcc", "-gdwarf-5", "llvm-dwp"}, {"clang", "-gdwarf-4", "llvm-dwp"}, {"clang", "-gdwarf-5", "llvm-dwp"}} {
		t.Run(strings.Join(way, " "), func(t *testing.T) {
			dir := t.TempDir()
			run := func(args ...string) {
				t.Helper()
				cmd := exec.Command(testenv.NeedProgram(t, args[0]), args[1:]...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
			}
			run(way[0], "-O2", way[1], "-gsplit-dwarf", "-c", source, "-o", "types.o")
			run(way[0], "types.o", "-o", "target")
			program := filepath.Join(dir, "target")
			read3 := func(from string) {
				t.Helper()
				w := startWaiting(t, program)
				s := newSession(t, wire.Options{PID: w.pid()})
				described := ask(t, s, "DESCRIBE FUNCTION integers").rows[0]
				said := strings.Join(described[len(described)-3:], "\n")
				if !strings.Contains(said, " integers(signed char c, short") || !strings.Contains(said, "i: rdx; l: rcx;") || !strings.Contains(said, "types.c:36") {
					t.Errorf("%s: DESCRIBE FUNCTION said\n%s", from, said)
				}
				if got := refusal(t, s, "SELECT CAST(arg0 AS 'struct absent *').x FROM function_start WHERE function_name = 'integers'"); !strings.Contains(got, "the function's source file uses no type absent") {
					t.Errorf("%s: %s", from, got)
				}
				q := start(t, s, query)
				w.goOn()
				if diff := cmp.Diff([][]string{row, row, row}, read(t, q).rows); diff != "" {
					t.Errorf("%s: -want +got\n%s", from, diff)
				}
			}
			read3("the .dwo file")
			run(way[2], "types.dwo", "-o", "target.dwp")
			if err := os.Rename(filepath.Join(dir, "types.dwo"), filepath.Join(dir, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			read3("the package")
			if err := os.Remove(filepath.Join(dir, "target.dwp")); err != nil {
				t.Fatal(err)
			}
			w := startWaiting(t, program)
			_, err := newSession(t, wire.Options{PID: w.pid()}).Execute(t.Context(), query)
			want := "it has its debug information in " + filepath.Join(dir, "types.dwo") + ", which is not there, nor is there a package " + program + ".dwp"
			if said := fmt.Sprint(err); !strings.Contains(said, want) {
				t.Errorf("without both: %s\nwant %s", said, want)
			}
		})
	}
}

// TestSharedDebugInfo reads arguments and variables by name where several programs share
// what their debug information has in common (dwz -m), and says so where that is missing.
func TestSharedDebugInfo(t *testing.T) {
	testenv.NeedUprobes(t)
	dwz := testenv.NeedProgram(t, "dwz")
	for _, form := range []string{"", "--dwarf-5"} {
		dir := t.TempDir()
		flags := []string{"-g", "-O2", "-Wl,--build-id", "-rdynamic"}
		for _, name := range []string{"a", "b"} {
			built := testenv.CompileC(t, filepath.Join("testdata", "values", "types.c"), append(flags, "-DCOPY_"+name)...)
			testenv.CopyFile(t, built, filepath.Join(dir, name))
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(dwz, append(strings.Fields(form), "-m", "shared.debug", "a", "b")...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("dwz: %v\n%s", err, out)
		}
		w := startWaiting(t, filepath.Join(dir, "a"))
		s := newSession(t, wire.Options{PID: w.pid()})
		const query = "SELECT args.i, args.l FROM function_start WHERE function_name = 'integers'"
		q := start(t, s, query)
		w.goOn()
		row := []string{"-2000000000", "-9000000000000000000"}
		if diff := cmp.Diff([][]string{row, row, row}, read(t, q).rows); diff != "" {
			t.Errorf("dwz %s: -want +got\n%s", form, diff)
		}

		if err := os.Remove(filepath.Join(dir, "shared.debug")); err != nil {
			t.Fatal(err)
		}
		w = startWaiting(t, filepath.Join(dir, "b"))
		_, err := newSession(t, wire.Options{PID: w.pid()}).Execute(t.Context(), query)
		if said := fmt.Sprint(err); !strings.Contains(said, "shares debug information with other programs (dwz) in shared.debug, which is not there") {
			t.Errorf("without the shared file: %s", said)
		}
	}
}
