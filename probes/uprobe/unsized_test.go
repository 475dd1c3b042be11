package uprobe

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// An allocator whose texts have unknown sizes may be loaded while the kernel tests
// sizes: its other functions are observed, and it is reported that those are not.
func TestSizesTestedWhenAllocatorComes(t *testing.T) {
	testenv.NeedUprobes(t)
	library := copyAs(t, testenv.CompileCText(t, `
static char pool[1 << 20];
static unsigned long used;
__attribute__((noinline)) static void *take(unsigned long n) { void *p = pool + used; used += n; return p; }
void *mi_malloc(unsigned long n) { return take(n); }
char *mi_strdup(const char *s) { char *p = take(8); p[0] = s[0]; return p; }
`, "-O1", "-shared", "-fPIC", "-fno-optimize-sibling-calls"), "libmine.so")
	program := testenv.CompileCText(t, prelude+`
#include <dlfcn.h>
#include <string.h>
int main(void) {
	char line[4096];
	void *(*take)(size_t) = 0;
	char *(*copy)(const char *) = 0;
	ready();
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "load ", 5)) {
			line[strlen(line) - 1] = 0;
			void *lib = dlopen(line + 5, RTLD_NOW);
			take = dlsym(lib, "mi_malloc"), copy = dlsym(lib, "mi_strdup");
		} else if (!strncmp(line, "call", 4)) {
			for (int i = 0; i < 5; i++) { sink += (long)take(4000 + i * 100); sink += (long)copy("text"); }
		} else {
			break;
		}
		puts("done"); fflush(stdout);
	}
	return 0;
}`, "-O1", "-ldl")
	for _, tested := range []bool{false, true} {
		p := provider(t, Options{})
		r := run(t, program)
		spec := testplan.Acquire(catalog.Allocation, r.target(), nil, "function_name", "size")
		want := 10
		if tested {
			spec.Filter = bound(testplan.Call(">", col("size"), &plan.Const{V: types.Int(4150)}), spec.Out)
			want = 3
		}
		_, got := start(t, p, spec)
		r.step()
		r.tell("load %s", library)
		testenv.Until(t, "the library is probed", func() bool { return strings.Contains(fmt.Sprint(got.causes()), "libmine.so from its mapping") })
		r.tell("call")
		fmt.Fprintln(r.in, "end")
		r.finish(success)
		n, told := 0, got.wait(t).lost["calls of functions of libmine.so that allocate what a text takes"] == 1
		for _, row := range got.rows {
			if strings.HasPrefix(row[0].S, "mi_") {
				n++
			}
		}
		if n != want || told != tested {
			t.Errorf("sizes tested: %v: %d calls, want %d; lost %v", tested, n, want, got.lost)
		}
	}
}
