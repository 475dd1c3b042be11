package uprobe

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// calling is a library that calls its caller back.
const calling = `
volatile long total;
__attribute__((noinline)) long plug_run(long n, long (*back)(long)) { long r = back(n) + 1; total += r; return r; }
`

// caller's function outer calls through the library once it is loaded.
const caller = prelude + `
#include <dlfcn.h>
static long (*run)(long, long (*)(long));
NOINLINE long back(long n) { sink += n; return n; }
NOINLINE long outer(long n) { long r = (run ? run(n, back) : back(n)) + 1; sink += r; return r; }
static void *work(void *n) { pthread_setname_np(pthread_self(), "later"); for (long i = 0; i < (long)n; i++) outer(i); return 0; }
int main(void) {
	char line[4096], path[4000];
	void *lib;
	long n;
	ready();
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "load %3999s", path) == 1) {
			if (!(lib = dlopen(path, RTLD_NOW))) { puts(dlerror()); return 1; }
			run = dlsym(lib, "plug_run");
		} else if (sscanf(line, "call %ld", &n) == 1) {
			for (long i = 0; i < n; i++) outer(i);
		} else if (sscanf(line, "thread %ld", &n) == 1) {
			pthread_t t;
			pthread_create(&t, 0, work, (void *)n);
			pthread_join(t, 0);
		} else if (!strncmp(line, "end", 3)) {
			return 0;
		}
		puts("done");
		fflush(stdout);
	}
}`

// The nesting of calls is followed into a library loaded while the query runs: where its
// calls were missed the sequence has a gap; a thread that begins later has none.
func TestNestingInLibraryLoadedLater(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, caller, "-O1", "-ldl", "-pthread", "-fno-optimize-sibling-calls")
	library := copyAs(t, testenv.CompileCText(t, calling, "-O1", "-shared", "-fPIC"), "libplug.so")
	names := testplan.Call("and", testplan.Named("outer", "plug_run", "back"), testplan.Call("or", testplan.Is(plan.SelectModule, filepath.Base(program)), testplan.Is(plan.SelectModule, "libplug.so")))
	follow := func(t *testing.T, o Options, spec *plan.Acquire) *record {
		p := provider(t, o)
		r := run(t, program)
		spec.Target = r.target()
		spec.Select = names
		_, got := start(t, p, spec)
		r.step()
		r.tell("call 3")
		before := len(p.Probes())
		r.tell("load %s", library)
		testenv.Until(t, "the library is probed", func() bool { return len(p.Probes()) != before })
		r.tell("call 2")
		r.tell("thread 2")
		fmt.Fprintln(r.in, "end")
		r.finish(success)
		got.wait(t)
		for cause, n := range got.lost {
			if !strings.HasPrefix(cause, gapCause) || n != 1 {
				t.Errorf("lost %d: %s", n, cause)
			}
		}
		if len(got.lost) != 1 || len(got.counts) > 0 {
			t.Errorf("lost %v, counted %v; want one gap", got.lost, got.counts)
		}
		return got
	}
	through := []string{"ENTER outer 0", "ENTER plug_run 1", "ENTER back 2", "LEAVE back 2", "LEAVE plug_run 1", "LEAVE outer 0"}
	past := []string{"ENTER outer 0", "ENTER back 1", "LEAVE back 1", "LEAVE outer 0"}
	times := func(n int, lines []string) (out []string) {
		for range n {
			out = append(out, lines...)
		}
		return out
	}
	t.Run("function_call", func(t *testing.T) {
		multiModes(t, func(t *testing.T, o Options) {
			got := follow(t, o, testplan.Acquire(catalog.FunctionCall, plan.Target{}, nil, sequenceColumns...))
			main := process.TruncateComm(filepath.Base(program))
			sameSequences(t, map[string][]string{
				main:    append(append(times(3, past), "GAP  0"), times(2, through)...),
				"later": times(2, through),
			}, got.sequences(t))
		})
	})
	t.Run("depth and self_time", func(t *testing.T) {
		multiModes(t, func(t *testing.T, o Options) {
			got := follow(t, o, testplan.Acquire(catalog.FunctionDuration, plan.Target{}, nil, "timestamp", "function_name", "depth", "duration", "self_time"))
			var lines []string
			var inner int64 // duration of the previous call, made by the enclosing one
			for _, row := range got.rows {
				lines = append(lines, fmt.Sprint(row[1].S, row[2].I))
				if row[1].S == "back" {
					inner = 0
				}
				if self := row[3].I - inner; row[4].I != self {
					t.Errorf("%s at depth %d has %d ns of its own, want %d of %d", row[1].S, row[2].I, row[4].I, self, row[3].I)
				}
				inner = row[3].I
			}
			want := append(times(3, []string{"back1", "outer0"}), times(4, []string{"back2", "plug_run1", "outer0"})...)
			if diff := cmp.Diff(want, lines); diff != "" {
				t.Error(diff)
			}
		})
	})
}
