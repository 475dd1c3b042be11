package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"endoscope/probes/testenv"
)

// shapes are the threads of testdata/shapes.c: the program's functions on the stack,
// leaf first, with the system's functions between them, and the thread's state.
var shapes = []struct{ name, state, syscall, user string }{
	{"read", "IO", "read", "read_leaf read_mid in_read thread_read"},
	{"spin", "RUN", "", "spin_leaf in_spin thread_spin"},
	{"mutex", "BLOCKED", "futex", "lock_it in_mutex thread_mutex"},
	{"rwlock", "BLOCKED", "futex", "in_rwlock thread_rwlock"},
	{"cond", "WAIT", "futex", "in_cond thread_cond"},
	{"sem", "WAIT", "futex", "in_sem thread_sem"},
	{"sleep", "WAIT", "clock_nanosleep", "in_sleep thread_sleep"},
	{"poll", "WAIT", "poll", "in_poll thread_poll"},
	{"epoll", "WAIT", "epoll_wait", "in_epoll thread_epoll"},
	{"accept", "IO", "accept", "in_accept thread_accept"},
	{"deep", "WAIT", "pause", "park " + strings.Repeat("deep ", 200) + "in_deep thread_deep"},
	{"aligned", "WAIT", "pause", "park vary align in_aligned thread_aligned"},
	{"callback", "WAIT", "pause", "park compare in_callback thread_callback"},
	{"signal", "WAIT", "pause", "park handle [signal] raise_it in_signal thread_signal"},
	{"altsignal", "WAIT", "pause", "park handle [signal] raise_it in_altsignal thread_altsignal"},
	{"fault", "WAIT", "pause", "park handle [signal] fault in_fault thread_fault"},
	{"coroutine", "WAIT", "pause", "park on_coroutine"},
	{"target", "WAIT", "vfork", "main"},
}

// However the program is compiled, every thread's stack is correct to its first
// function.
func TestShapes(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"unoptimised", []string{"-O0"}},
		{"without frame pointers", []string{"-O2", "-fomit-frame-pointer"}},
		{"position dependent, with eager binding", []string{"-O1", "-no-pie", "-Wl,-z,now"}},
		{"static", []string{"-O2", "-static"}},
		{"without an unwind table, but with frame pointers", []string{"-O1", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := append([]string{"-pthread", "-fno-optimize-sibling-calls", "-fno-inline"}, c.flags...)
			r := run(t, testenv.CompileC(t, "testdata/shapes.c", flags...), "v")
			forked := r.number(t)
			vforked := child(t, r.pid, "vforked")
			awaitPause(t, child(t, r.pid, "forked"))
			awaitPause(t, vforked)
			settled(t, r.pid)
			col := collect(t, r.pid)
			for round := range 3 { // the first copies, the others find threads unchanged
				checkShapes(t, snapshot(t, col))
				if col.missed > 0 || col.compat > 0 {
					t.Errorf("round %d: %+v", round, col.tally)
				}
				time.Sleep(5 * time.Millisecond) // in which the threads run
			}
			// A child has one thread, on a copy of main's stack; or on main's.
			for name, pid := range map[string]int{"forked": forked, "vforked": vforked} {
				all := snapshot(t, collect(t, pid))
				if got := all[pid]; len(all) != 1 || got.name != name || ours(got) != "park child_body main" || !got.complete {
					t.Errorf("process %s: %v", name, all)
				}
			}
		})
	}
}

// settled waits until each thread but main has entered its system call: the program counts them
// before.
func settled(t *testing.T, pid int) {
	t.Helper()
	c := collect(t, pid)
	testenv.UntilNil(t, "the threads are in their system calls", func() error {
		by := byName(snapshot(t, c))
		for _, want := range shapes[:len(shapes)-1] {
			if got := by[want.name].syscall; got != want.syscall {
				return fmt.Errorf("thread %s is in %q, want %q", want.name, got, want.syscall)
			}
		}
		return nil
	})
}

func checkShapes(t *testing.T, all map[int]seen) {
	t.Helper()
	by := byName(all)
	if len(all) != len(shapes) {
		t.Errorf("%d threads, want %d", len(all), len(shapes))
	}
	for _, want := range shapes {
		got, ok := by[want.name]
		if !ok {
			t.Errorf("thread %s is missing", want.name)
			continue
		}
		if user := ours(got); user != want.user {
			t.Errorf("thread %s is in %s\nwant %s\n(all: %s)", want.name, user, want.user, strings.Join(got.functions, " "))
		}
		if got.state != want.state || got.syscall != want.syscall {
			t.Errorf("thread %s is %s in %q, want %s in %q", want.name, got.state, got.syscall, want.state, want.syscall)
		}
		if !got.complete {
			t.Errorf("thread %s is not unwound to its root: %s, after %s", want.name, got.cause, strings.Join(got.functions, " "))
		}
	}
}

// child waits for a child of a process with that name.
func child(t *testing.T, parent int, name string) int {
	t.Helper()
	var found int
	testenv.Until(t, "there is a child "+name, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		for _, pid := range strings.Fields(string(b)) {
			if comm, _ := os.ReadFile("/proc/" + pid + "/comm"); string(comm) == name+"\n" {
				found, _ = strconv.Atoi(pid)
			}
		}
		return found != 0
	})
	return found
}

// ours returns the functions of a stack that shapes.c defines, and signals.
func ours(s seen) string {
	var out []string
	for _, f := range s.functions {
		if own[f] || f == signalFrame {
			out = append(out, f)
		}
	}
	return strings.Join(out, " ")
}

var own = func() map[string]bool {
	m := map[string]bool{"child_body": true}
	for _, s := range shapes {
		for _, f := range strings.Fields(s.user) {
			m[f] = true
		}
	}
	return m
}()

// gdb unwinds the same threads with its own code: every address must be equal.
func TestAgainstGDB(t *testing.T) {
	testenv.NeedUprobes(t)
	gdb := testenv.NeedProgram(t, "gdb")
	r := run(t, testenv.CompileC(t, "testdata/shapes.c", "-g", "-O2", "-fomit-frame-pointer", "-pthread", "-fno-optimize-sibling-calls"))
	r.number(t)
	settled(t, r.pid)
	c := collect(t, r.pid)
	ours := map[string][]uint64{}
	if err := c.snapshotThreads(func(o *observation) { ours[o.name] = slices.Clone(c.unwinder.pcs) }); err != nil {
		t.Fatal(err)
	}
	theirs := gdbStacks(t, gdb, r.pid, "t.name")
	frames := 0
	for _, s := range shapes {
		if s.name == "spin" { // it keeps running
			continue
		}
		if s.name == "coroutine" { // gdb continues where a context's stack ends, to an address without code
			theirs[s.name] = theirs[s.name][:min(len(ours[s.name]), len(theirs[s.name]))]
		}
		if !slices.Equal(ours[s.name], theirs[s.name]) {
			t.Errorf("thread %s is at %x, by gdb at %x", s.name, ours[s.name], theirs[s.name])
		}
		frames += len(theirs[s.name])
	}
	t.Logf("%d frames are equal", frames)
}

// gdbStacks makes gdb print the addresses of every thread's frames; key is an
// expression of a thread t.
func gdbStacks(t *testing.T, gdb string, pid int, key string) map[string][]uint64 {
	t.Helper()
	dir := t.TempDir()
	script, out := filepath.Join(dir, "stacks.py"), filepath.Join(dir, "stacks.json")
	text := `
import gdb, json
stacks = {}
for t in gdb.selected_inferior().threads():
    t.switch()
    f, pcs = gdb.newest_frame(), []
    while f is not None and len(pcs) < 1000:
        if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            pcs.append(f.pc())
        try:
            f = f.older()
        except gdb.error:
            break
    stacks[` + key + `] = pcs
json.dump(stacks, open('` + out + `', 'w'))
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	msg, err := exec.Command(gdb, "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set backtrace past-main on",
		"-iex", "set backtrace past-entry on", "-p", strconv.Itoa(pid), "-x", script).CombinedOutput()
	b, readErr := os.ReadFile(out)
	var stacks map[string][]uint64
	if err != nil || readErr != nil || json.Unmarshal(b, &stacks) != nil {
		t.Fatalf("gdb: %v\n%s", err, msg)
	}
	return stacks
}

// Return probes replace return addresses on the stack. The stacks are the same.
func TestTakenReturns(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileC(t, "testdata/shapes.c", "-O2", "-pthread", "-fno-optimize-sibling-calls")
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	exe, err := link.OpenExecutable(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"read_mid", "in_read", "deep", "in_deep", "align", "compare", "in_callback", "raise_it", "lock_it", "read_mid"} {
		l, err := exe.Uretprobe(f, prog, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	r := run(t, target, "pv")
	r.in.Write([]byte{'\n'})
	r.number(t)
	awaitPause(t, child(t, r.pid, "vforked"))
	settled(t, r.pid)
	c := collect(t, r.pid)
	checkShapes(t, snapshot(t, c))
}
