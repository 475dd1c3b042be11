package uprobe

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// logLine is a line printed by testdata/heap.c: what a thread did.
type logLine struct {
	op            byte // + allocated, - released, ~ result of an allocating function, ! of a releasing one, . the end
	name          string
	address, size int64
}

// thread is a thread of a process.
type thread struct{ pid, tid int64 }

// histories parses the lines of the program's threads.
func histories(t *testing.T, lines []string) map[thread][]logLine {
	t.Helper()
	out := map[thread][]logLine{}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			t.Fatalf("the program says %q", line)
		}
		n := [6]int64{}
		for _, i := range []int{0, 1, 4, 5} {
			n[i], _ = strconv.ParseInt(f[i], 10, 64)
		}
		who := thread{n[0], n[1]}
		out[who] = append(out[who], logLine{f[2][0], f[3], n[4], n[5]})
	}
	return out
}

// observed is a row of one of the two streams.
type observed struct {
	at            int64
	op            byte
	name          string
	address, size int64 // -1: NULL
}

var heapColumns = []string{"timestamp", "function_name", "address", "size", "pid", "tid"}

// byThread returns the rows of each thread, in order.
func byThread(allocated, released *record) map[thread][]observed {
	out := map[thread][]observed{}
	for op, r := range map[byte]*record{'+': allocated, '-': released} {
		for _, row := range r.rows {
			o := observed{row[0].I, op, row[1].S, row[2].I, row[3].I}
			if row[3].IsNull {
				o.size = -1
			}
			who := thread{row[4].I, row[5].I}
			out[who] = append(out[who], o)
		}
	}
	for _, rows := range out {
		slices.SortStableFunc(rows, func(a, b observed) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.op, a.op))
		})
	}
	return out
}

// allocatorLibrary describes how an allocator's rows name the calls of a program.
type allocatorLibrary struct {
	operators bool // it has its own C++ operators
	memalign  bool // is one function with aligned_alloc
}

// is reports whether a row is the call that a thread printed.
func (l allocatorLibrary) is(got observed, s logLine) bool {
	if got.op != s.op || got.address != s.address {
		return false
	}
	name, alignment, _ := strings.Cut(s.name, ",")
	if strings.HasPrefix(name, "operator ") {
		switch {
		case l.operators && s.op == '+':
			return got.size == s.size // the linker decides which of its names a function has
		case l.operators:
			return got.size == s.size || got.size == -1 // some continue as others that do not receive the size
		case s.op == '-':
			return got.name == "free" && got.size == -1
		case alignment != "":
			// The C++ library requests a multiple of the alignment.
			a, _ := strconv.ParseInt(alignment, 10, 64)
			s.name, s.size = "aligned_alloc", (s.size+a-1)/a*a
		default:
			s.name = "malloc"
		}
	}
	if l.memalign && s.name == "memalign" {
		s.name = "aligned_alloc"
	}
	if l.memalign && got.name == "memalign" {
		got.name = "aligned_alloc"
	}
	return got.name == s.name && got.size == s.size
}

// checkHistory compares a thread's rows with what it printed: each row that is not of an
// internal function of a library, in order; for such functions only what is left after
// them.
func (l allocatorLibrary) checkHistory(t *testing.T, history []logLine, rows []observed) (n int) {
	t.Helper()
	start := slices.IndexFunc(rows, func(o observed) bool { return o.op == '+' && o.size == 4242 })
	if start < 0 {
		t.Errorf("no row of the first allocation, in %d rows", len(rows))
		return 0
	}
	rows = rows[start:]
	alive := map[int64]int64{}
	next := func() observed {
		if n == len(rows) {
			return observed{name: "nothing"}
		}
		o := rows[n]
		n++
		if o.op == '+' {
			alive[o.address] = o.size
		} else {
			delete(alive, o.address)
		}
		return o
	}
	kept := map[int64]int64{}
	var within []logLine
	for i, s := range history {
		if s.op == '~' || s.op == '!' {
			within = append(slices.DeleteFunc(within, func(w logLine) bool { return w.address == s.address }), s)
			continue
		}
		if s.op == '.' {
			continue
		}
		got := next()
		for len(within) > 0 && n < len(rows) && !l.is(got, s) {
			got = next()
		}
		if !l.is(got, s) {
			t.Errorf("line %d: %+v, the program says %+v", i, got, s)
			return n
		}
		for _, w := range within {
			if size, ok := alive[w.address]; w.op == '~' && w.address != s.address && (!ok || size < w.size) {
				t.Errorf("line %d: the result of %s has %d bytes (%t), want %d", i, w.name, size, ok, w.size)
			} else if w.op == '~' && kept[w.address] == 0 {
				kept[w.address] = w.size
			} else if w.op == '!' && ok {
				t.Errorf("line %d: what %s is given remains", i, w.name)
			} else if w.op == '!' {
				delete(kept, w.address)
			}
		}
		within = nil
		if s.op == '+' {
			kept[s.address] = s.size
		} else {
			delete(kept, s.address)
		}
	}
	if len(alive) != len(kept) {
		t.Errorf("%d blocks remain, want %d: %v, %v", len(alive), len(kept), alive, kept)
	}
	return n
}

// A program's use of memory is reported call by call: by C and C++, with each allocator,
// in threads, at their end, in constructors and in a child.
func TestHeapByProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, c := range []struct {
		name     string
		compiler []string
		preload  string
		library  allocatorLibrary
		throws   bool // its operators throw if there is no memory
	}{
		{"C, glibc", []string{"gcc", "-x", "c"}, "", allocatorLibrary{memalign: true}, false},
		{"C++, glibc", []string{"g++", "-x", "c++"}, "", allocatorLibrary{memalign: true}, true},
		{"C++, jemalloc", []string{"g++", "-x", "c++"}, "libjemalloc.so.2", allocatorLibrary{operators: true}, true},
		{"C++, tcmalloc", []string{"g++", "-x", "c++"}, "libtcmalloc_minimal.so.4", allocatorLibrary{operators: true, memalign: true}, true},
		{"C++, tcmalloc that profiles", []string{"g++", "-x", "c++"}, "libtcmalloc.so.4", allocatorLibrary{operators: true, memalign: true}, true},
		{"C++, mimalloc", []string{"g++", "-x", "c++"}, "libmimalloc.so.2.0", allocatorLibrary{operators: true}, false},
		{"C, musl, static", []string{"musl-gcc", "-static", "-DSTATIC_ONLY", "-x", "c"}, "", allocatorLibrary{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "heap")
			compiler := testenv.NeedProgram(t, c.compiler[0])
			out, err := exec.Command(compiler, append(c.compiler[1:], "-O1", "-fno-builtin", "-pthread", "testdata/heap.c", "-o", target)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%s", out)
			}
			cmd := exec.Command(target)
			if c.throws {
				cmd.Args = append(cmd.Args, "throws")
			}
			if c.preload != "" {
				cmd.Env = append(os.Environ(), "LD_PRELOAD="+preloaded(t, c.preload))
			}
			p := provider(t, Options{})
			r := runCommand(t, cmd)
			exe := plan.Target{Exes: []string{target}} // includes its child
			srcA, allocated := start(t, p, testplan.Acquire(catalog.Allocation, exe, nil, heapColumns...))
			srcB, released := start(t, p, testplan.Acquire(catalog.Deallocation, exe, nil, heapColumns...))
			t.Log(strings.Join(append(srcA.Info().Notices, srcB.Info().Notices...), "\n"))
			lines := r.finish(success)
			srcA.Stop()
			srcB.Stop()
			allocated.wait(t)
			released.wait(t)
			if len(allocated.lost)+len(released.lost)+len(released.counts) > 0 {
				t.Error(allocated.lost, released.lost, released.counts)
			}
			rows := byThread(allocated, released)
			total := 0
			logLine := histories(t, lines)
			if len(logLine) != 6 {
				t.Errorf("%d threads say something", len(logLine))
			}
			for who, history := range logLine {
				t.Run(fmt.Sprint(who.tid), func(t *testing.T) { total += c.library.checkHistory(t, history, rows[who]) })
			}
			t.Logf("%d rows compared of %d threads", total, len(logLine))
		})
	}
}
