package uprobe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/elf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/abi"
)

func TestNameList(t *testing.T) {
	x := call("like", selColumn(selName), constant("x%"))
	for _, c := range []struct {
		name string
		sel  plan.Expr
		want []string // nil: no restriction to names
	}{
		{"equality", is(selName, "a"), []string{"a"}},
		{"equality, reversed", call("=", constant("a"), selColumn(selName)), []string{"a"}},
		{"list", named("a", "b"), []string{"a", "b"}},
		{"conjunct", call("and", x, is(selName, "a")), []string{"a"}},
		{"disjunction of names", call("or", is(selName, "a"), named("b", "c")), []string{"a", "b", "c"}},
		{"disjunction with a pattern", call("or", is(selName, "a"), x), nil},
		{"disjunction with another column", call("or", is(selName, "a"), is(selClass, "c")), nil},
		{"of another column", is(selClass, "a"), nil},
		{"negated", call("not", is(selName, "a")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, l := range nameList(c.sel) {
				got = append(got, l.V.S)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelectorAndModules(t *testing.T) {
	onlyModule := is(selModule, "libc.so.6")
	for _, c := range []struct {
		name    string
		sel     plan.Expr
		mention bool // modules at all
		libc    bool // libc.so.6 may have some
		other   bool // so may libm.so.6
	}{
		{"everything", nil, false, false, false},
		{"names only", named("a"), false, false, false},
		{"one module", call("and", named("a"), onlyModule), true, true, false},
		{"not one module", call("and", named("a"), call("not", onlyModule)), true, false, true},
		{"module and name entangled", call("or", named("a"), onlyModule), true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := newSelector(c.sel, matchExpr)
			if err != nil {
				t.Fatal(err)
			}
			if s.inModule == nil {
				if c.mention {
					t.Fatal("the predicate mentions modules")
				}
				return
			}
			libc, _ := s.inModule("", "", "libc.so.6")
			other, _ := s.inModule("", "", "libm.so.6")
			if !c.mention || libc != c.libc || other != c.other {
				t.Errorf("libc %v, libm %v", libc, other)
			}
		})
	}
}

// A function has several names; the row shows the one that was asked for.
func TestMatchedByAnyName(t *testing.T) {
	f := &elf.Function{Name: "ns::f", Mangled: "_ZN2ns1fEv", Aliases: []string{"f_alias"}, Class: "ns"}
	for _, name := range []string{f.Name, f.Mangled, f.Aliases[0]} {
		s, _ := newSelector(is(selName, name), matchExpr)
		got, ok, err := s.matched(f, "m")
		if got != name || !ok || err != nil {
			t.Errorf("asked for %s: %s, %v, %v", name, got, ok, err)
		}
	}
	s, _ := newSelector(named("f_alias", "ns::f"), matchExpr)
	if got, _, _ := s.matched(f, "m"); got != "ns::f" {
		t.Errorf("of several names asked for, %s is shown, not the one users see first", got)
	}
	s, _ = newSelector(is(selName, "g"), matchExpr)
	if _, ok, _ := s.matched(f, "m"); ok {
		t.Error("g matched f")
	}
}

func TestIDsAreReused(t *testing.T) {
	p := idPool{max: 3}
	take := func() (ids []uint32) {
		for {
			id, ok := p.get()
			if !ok {
				return ids
			}
			ids = append(ids, id)
		}
	}
	if diff := cmp.Diff([]uint32{0, 1, 2}, take()); diff != "" {
		t.Error(diff)
	}
	for _, id := range []uint32{2, 0, 1} {
		p.put(id)
	}
	if diff := cmp.Diff([]uint32{2, 0, 1}, take()); diff != "" {
		t.Error(diff)
	}
}

func TestRestoreOfProbedCode(t *testing.T) {
	nopEntry := append(slices.Clone(nop5), 0x55, 0xc3)
	push := []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5}
	patch := func(b []byte, at int, with ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name      string
		want, got []byte
		at        int
		same      bool
	}{
		{"untouched", push, push, 4, true},
		{"breakpoint at the site", push, patch(push, 4, breakpoint), 4, true},
		{"breakpoint at the entry, of another tool", push, patch(push, 0, breakpoint), 4, true},
		{"breakpoint elsewhere: a debugger's, or data", push, patch(push, 6, breakpoint), 4, false},
		{"nop replaced by a call", nopEntry, patch(nopEntry, 0, callInsn, 1, 2, 3, 4), 0, true},
		{"a call where there was no nop", push, patch(push, 0, callInsn, 1, 2, 3, 4), 0, false},
		{"patched to jump away", push, patch(push, 0, 0xe9, 1, 2, 3, 4), 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.Clone(c.got)
			restore(got, c.want, 0)
			restore(got, c.want, c.at)
			if same := bytes.Equal(got, c.want); same != c.same {
				t.Errorf("same: %v, want %v", same, c.same)
			}
		})
	}
}

// decode never reads beyond a record, whatever is expected of it.
func TestDecodeOfShortRecords(t *testing.T) {
	full := bpf.FunctionEventFull{}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&full)), sizeFull)
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.Uint32().Draw(t, "options")
		n := rapid.IntRange(0, sizeFull).Draw(t, "bytes")
		var e event
		if !decode(raw[:n:n], options, &e) {
			return
		}
		need := sizeEntry
		if options&abi.AtReturn != 0 {
			need = sizeReturn
		}
		if e.process != nil {
			need = sizeNames
		}
		if e.args != nil {
			need = sizeArgs
		}
		if e.args != nil && e.process != nil {
			need = sizeFull
		}
		if n < need {
			t.Fatalf("%d bytes were taken for an event of %d", n, need)
		}
	})
}

// needsTwice is a program that needs a library which another of its libraries
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

// The libraries of a program that does not run are those that the loader finds.
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
		for _, lib := range needed(f, path) {
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
	write("sub-b.conf", "/three\ninclude main.conf\n") // a cycle ends
	got := configuredDirs(filepath.Join(dir, "main.conf"), 0, new(int))
	if diff := cmp.Diff([]string{"/one", "/two", "/three"}, got[:3]); diff != "" {
		t.Error(diff)
	}
	if got[len(got)-1] != "/four" || len(got) > 4*maxConfFiles {
		t.Errorf("%d directories, the last %s", len(got), got[len(got)-1])
	}
}

// Names outlive their processes, and are asked for anew while they live.
func TestExeNames(t *testing.T) {
	testenv.NeedProgram(t, "sleep")
	now := time.Now()
	x := newExeNames()
	x.now = func() time.Time { return now }
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	want, _ := filepath.EvalSymlinks(testenv.NeedProgram(t, "sleep"))
	// Between fork and exec the child has our executable.
	self, _ := os.Executable()
	for x.of(cmd.Process.Pid) == self {
		now = now.Add(2 * exeNameLife)
	}
	if got := x.of(cmd.Process.Pid); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	cmd.Process.Kill()
	cmd.Wait()
	now = now.Add(2 * exeNameLife)
	if got := x.of(cmd.Process.Pid); got != want {
		t.Errorf("after its end: %q, want %q", got, want)
	}
	if got := x.of(1 << 22); got != "" {
		t.Errorf("no process has executable %q", got)
	}
}
