package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// framesOfGDB is a program for gdb that prints the frames of a thread: function, file and line
// if they are known, and whether the frame is of an inlined call.
const framesOfGDB = `python
f = gdb.newest_frame()
while f is not None and f.is_valid():
    s = f.find_sal()
    print("FRAME|%s|%s|%d|%s" % (f.name(), s.symtab.fullname() if s.symtab else "", s.line if s.symtab else 0, f.type() == gdb.INLINE_FRAME))
    f = f.older()
`

// called is a frame as gdb and we see it.
type called struct {
	function, file string
	line           int
	inlined        bool
}

// gdbFrames lists the frames of a process in its own files.
func gdbFrames(t *testing.T, pid int, source string) (list []called) {
	t.Helper()
	out, err := exec.Command(testenv.NeedProgram(t, "gdb"), "-nx", "-batch", "-p", strconv.Itoa(pid), "-ex", framesOfGDB).CombinedOutput()
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	for _, text := range strings.Split(string(out), "\n") {
		p := strings.Split(text, "|")
		if p[0] != "FRAME" || filepath.Base(p[2]) != source {
			continue
		}
		line, err := strconv.Atoi(p[3])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, called{p[1], p[2], line, p[4] == "True"})
	}
	return list
}

// ourFrames lists the frames of a stack in a source file.
func ourFrames(t *testing.T, stack any, source string) (list []called) {
	t.Helper()
	for _, f := range stack.([]types.Value) {
		v := f.A.([]types.Value)
		if len(v) != 6 {
			t.Fatalf("a frame has %d values: %v", len(v), v)
		}
		if filepath.Base(v[3].S) == source {
			list = append(list, called{v[0].S, v[3].S, int(v[4].I), v[5].I != 0})
		}
	}
	return list
}

// The frames of inlined calls, and the files and lines of all, are gdb's.
func TestInlinedNativeCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		compiler, source, options string
		functions                 []string
	}{
		{"g++", "inlined.cpp", "-O2 -g", []string{"shop::Basket::wait", "shop::(anonymous namespace)::checked", "shop::total<shop::Basket>", "shop::checkout", "serve", "main"}},
		{"g++", "inlined.cpp", "-O3 -gdwarf-4 -fno-omit-frame-pointer", []string{"shop::Basket::wait", "shop::(anonymous namespace)::checked", "shop::total<shop::Basket>", "shop::checkout", "serve", "main"}},
		{"clang++", "inlined.cpp", "-O1 -g", []string{"shop::Basket::wait", "shop::(anonymous namespace)::checked", "shop::total<shop::Basket>", "shop::checkout", "serve", "main"}},
		{"rustc", "inlined.rs", "-Copt-level=2 -g", []string{"<inlined::Basket as inlined::Waits>::wait", "inlined::checked", "inlined::serve", "inlined::main"}},
	} {
		t.Run(c.compiler+" "+c.options, func(t *testing.T) {
			from, err := filepath.Abs(filepath.Join("testdata", c.source))
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(t.TempDir(), "program")
			testenv.Output(t, testenv.NeedProgram(t, c.compiler), append(strings.Fields(c.options), from, "-o", program)...)
			r := run(t, program)
			r.line(t)
			awaitPause(t, r.pid)
			var got []called
			col := collectLines(t, r.pid)
			if err := col.snapshotThreads(func(o *observation) { got = ourFrames(t, o.stack.value, c.source) }); err != nil {
				t.Fatal(err)
			}
			want := gdbFrames(t, r.pid, c.source)
			var functions []string
			for _, f := range got {
				functions = append(functions, f.function)
			}
			if !slices.Equal(functions, c.functions) {
				t.Errorf("functions %q, want %q", functions, c.functions)
			}
			if len(got) != len(want) {
				t.Fatalf("frames %v, by gdb %v", got, want)
			}
			for i := range got {
				if got[i].file != want[i].file || got[i].line != want[i].line || got[i].inlined != want[i].inlined {
					t.Errorf("frame %d is %+v, by gdb %+v", i, got[i], want[i])
				}
			}
			// Without lines, the frames have the functions only.
			var plain []string
			for _, s := range snapshot(t, collect(t, r.pid)) {
				plain = s.functions
			}
			if i := slices.Index(plain, c.functions[0]); i < 0 || !slices.Equal(plain[i:i+len(c.functions)], c.functions) {
				t.Errorf("without lines: %q", plain)
			}
		})
	}
}

// collectLines is collect for frames with lines.
func collectLines(t *testing.T, pid int) *collector {
	t.Helper()
	p, ok := process.Lookup(pid)
	if !ok {
		t.Fatalf("process %d has ended", pid)
	}
	c, err := (&source{provider: provider, target: plan.Target{PIDs: []int{pid}}, found: []process.Process{p}, spec: &plan.Acquire{Lines: true}}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// awaitPause waits until the first thread of a process is in pause(2).
func awaitPause(t *testing.T, pid int) {
	t.Helper()
	want := strconv.Itoa(syscall.SYS_PAUSE) + " "
	testenv.Until(t, "the program is in pause", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		return err == nil && strings.HasPrefix(string(text), want)
	})
}

// A program without debug information has frames of its functions only, and what is missing
// is counted.
func TestNoLines(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileC(t, "testdata/inlined.cpp", "-x", "c++", "-O2", "-s", "-lstdc++")
	name := filepath.Base(program)
	r := run(t, program)
	r.line(t)
	awaitPause(t, r.pid)
	c := collectLines(t, r.pid)
	for range 2 { // instructions are counted once
		var modules []string
		if err := c.snapshotThreads(func(o *observation) {
			for _, f := range o.stack.value.([]types.Value) {
				v := f.A.([]types.Value)
				if modules = append(modules, v[1].S); v[1].S == name && (!v[3].IsNull || !v[4].IsNull || v[5].I != 0) {
					t.Errorf("frame %v", v)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(slices.DeleteFunc(modules, func(m string) bool { return m != name })); n != 4 {
			t.Errorf("%d frames of the program: %q", n, modules)
		}
	}
	missing := c.modules.takeMissing()
	if notice := "places without file and line: " + name + " has no debug information"; missing[notice] != 3 { // _start has no name
		t.Errorf("%q is not counted: %v", notice, missing)
	}
}
