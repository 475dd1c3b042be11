package stack

import (
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// shapes are the threads of testdata/shapes.c: the functions of the program
// that they are in, leaf first, with what of the system's lies between, and
// what they do.
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
}

// However the program is compiled, every thread's stack is what the program
// itself did, to its first function.
func TestShapes(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		name      string
		flags     []string
		frameless string // threads whose leaf function has no frame, and there no table that tells so
	}{
		{"unoptimised", []string{"-O0"}, ""},
		{"without frame pointers", []string{"-O2", "-fomit-frame-pointer"}, ""},
		{"with frame pointers", []string{"-O2", "-fno-omit-frame-pointer"}, ""},
		{"position dependent, with eager binding", []string{"-O1", "-no-pie", "-Wl,-z,now"}, ""},
		{"static", []string{"-O2", "-static"}, ""},
		{"stripped of its unwind table's index", []string{"-O2", "-Wl,--no-eh-frame-hdr"}, ""},
		{"without an unwind table, but with frame pointers", []string{"-O1", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-omit-frame-pointer"}, "spin fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := append([]string{"-g0", "-pthread", "-fno-optimize-sibling-calls", "-fno-inline"}, c.flags...)
			r := run(t, testenv.CompileC(t, "testdata/shapes.c", flags...))
			r.number(t)
			col := collect(t, r.pid)
			for round := range 3 { // the first copies, the others find threads unchanged
				checkShapes(t, snapshot(t, col), c.frameless)
				if col.missed > 0 || col.compat > 0 {
					t.Errorf("round %d: %+v", round, col.tally)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

func checkShapes(t *testing.T, all map[int]seen, frameless string) {
	t.Helper()
	by := byName(all)
	if len(all) != len(shapes)+1 {
		t.Errorf("%d threads, want %d", len(all), len(shapes)+1)
	}
	for _, want := range shapes {
		got, ok := by[want.name]
		if !ok {
			t.Errorf("thread %s is missing", want.name)
			continue
		}
		if user := ours(got); user != want.user && !strings.Contains(frameless, want.name) {
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

// ours are the functions of a stack that shapes.c defines, and signals.
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
	m := map[string]bool{}
	for _, s := range shapes {
		for _, f := range strings.Fields(s.user) {
			m[f] = true
		}
	}
	return m
}()
