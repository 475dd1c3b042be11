package uprobe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// allocating is a program that uses every allocating function of C, and prints what it
// does not free.
const allocating = prelude + `
#include <malloc.h>
#include <stdint.h>
static void *kept[64];
NOINLINE void leaks(int n) { for (int i = 0; i < n; i++) { kept[i] = malloc(1000 + i); printf("%p\n", kept[i]); } }
NOINLINE void works(void) {
	char *a = malloc(10), *b = calloc(3, 7), *c = realloc(NULL, 30), *d = aligned_alloc(64, 128), *e = memalign(32, 96), *f = NULL;
	if (posix_memalign((void **)&f, 128, 256)) exit(3);
	a = realloc(a, 20);
	a = realloc(a, 100000);
	c = reallocarray(c, 11, 4);
	free(NULL);
	if (malloc(PTRDIFF_MAX) || calloc(SIZE_MAX / 2, 4) || realloc(b, PTRDIFF_MAX) || !posix_memalign((void **)&b, 3, 10)) exit(4);
	if (realloc(d, 0)) exit(5);
	free(a), free(b), free(c), free(e), free(f);
}
static void *thread(void *p) { for (int i = 0; i < 50; i++) works(); return 0; }
int main(void) {
	ready();
	leaks(20);
	pthread_t t;
	pthread_create(&t, 0, thread, 0);
	thread(0);
	pthread_join(t, 0);
	return 0;
}`

var memoryColumns = []string{"timestamp", "function_name", "address", "size", "caller", "tid"}

// memory evaluates rows: it returns the calls of the given callers, by function and
// size, and the addresses allocated and not released afterwards.
func memory(t *testing.T, allocated, released *record, callers ...string) (calls map[string]int, left map[int64]int64) {
	t.Helper()
	calls, left = map[string]int{}, map[int64]int64{}
	of := map[string]bool{}
	for _, c := range callers {
		of[c] = true
	}
	type event struct{ at, size int64 }
	allocations := map[int64][]event{}
	for i, row := range allocated.rows {
		if of[row[4].S] {
			name := strings.Replace(row[1].S, "aligned_alloc", "memalign", 1) // the C library's are one
			calls[fmt.Sprintf("%s %d", name, row[3].I)]++
			allocations[row[2].I] = append(allocations[row[2].I], event{row[0].I, row[3].I})
		}
		if row[2].I == 0 || row[3].IsNull {
			t.Errorf("allocation %d: %v", i, row)
		}
	}
	last := map[int64]int64{}
	for i, row := range released.rows {
		if of[row[4].S] {
			calls["-"+row[1].S]++
		}
		last[row[2].I] = max(last[row[2].I], row[0].I)
		if row[2].I == 0 {
			t.Errorf("deallocation %d: %v", i, row)
		}
	}
	for address, list := range allocations {
		for _, e := range list {
			if e.at > last[address] {
				left[address] = e.size
			}
		}
	}
	return calls, left
}

// Allocations and deallocations of a program are reported to the byte, and what is left
// at its end is what it kept.
func TestAllocationsInC(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, allocating, "-O1", "-fno-builtin", "-pthread", "-fno-optimize-sibling-calls")
	for _, lib := range []string{"", "libjemalloc.so.2"} {
		t.Run(strings.TrimSuffix("C library "+lib, " "), func(t *testing.T) {
			if lib != "" {
				t.Setenv("LD_PRELOAD", preloaded(t, lib))
			}
			returnModes(t, func(t *testing.T, o Options) { checkAllocations(t, o, target) })
		})
	}
}

// preloaded returns the path of an allocator's library.
func preloaded(t *testing.T, lib string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/" + lib)
	if len(found) == 0 {
		testenv.Skip(t, "needs %s", lib)
	}
	return found[0]
}

func checkAllocations(t *testing.T, o Options, target string) {
	p := provider(t, o)
	r := run(t, target)
	os.Unsetenv("LD_PRELOAD")
	_, allocated := start(t, p, testplan.Acquire(catalog.Allocation, r.target(), nil, memoryColumns...))
	_, released := start(t, p, testplan.Acquire(catalog.Deallocation, r.target(), nil, memoryColumns...))
	kept := r.finish(success)
	allocated.wait(t)
	released.wait(t)
	calls, left := memory(t, allocated, released, "works", "leaks")
	const times = 100
	want := map[string]int{
		"malloc 10": times, "calloc 21": times, "realloc 30": times, "memalign 128": times, "memalign 96": times, "posix_memalign 256": times,
		"realloc 20": times, "realloc 100000": times, "reallocarray 44": times,
		"-realloc": 3 * times, "-reallocarray": times, "-free": 5 * times,
	}
	if o.Returns == plan.ExitReturns {
		// A call that leaves by a tail call is attributed to the function it continues
		// as. If that is no allocator's, it is not observed, and a notice says so.
		want["malloc 30"], want["realloc 44"], want["-realloc"] = times, times, 4*times
		for _, name := range []string{"realloc 30", "reallocarray 44", "-reallocarray", "calloc 21"} {
			delete(want, name)
		}
	}
	for i := range 20 {
		want[fmt.Sprintf("malloc %d", 1000+i)] = 1
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	leaks := map[string]int64{}
	for address, size := range left {
		leaks[fmt.Sprintf("%#x", address)] = size
	}
	known := map[string]int64{}
	for i, line := range kept {
		known[line] = 1000 + int64(i)
	}
	if diff := cmp.Diff(known, leaks); diff != "" {
		t.Error("what is left:", diff)
	}
	if len(allocated.lost)+len(released.lost) > 0 {
		t.Error(allocated.lost, released.lost)
	}
}

// Operators new and delete are one allocation with the malloc and free that they call,
// and are reported as such where an allocator has its own.
func TestAllocationsInCPlusPlus(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
#include <new>
#include <vector>
struct Thing { long a[5]; virtual ~Thing() { sink++; } };
NOINLINE Thing *makes() { return new Thing; }
NOINLINE void drops(Thing *t) { delete t; }
NOINLINE long lists(long n) { std::vector<long> v(n); sink += v[n - 1]; return v.size(); }
NOINLINE void arrays(long n) { char *c = new (std::nothrow) char[n]; sink += (long)c; delete[] c; }
int main() { ready(); for (long i = 1; i <= 100; i++) { drops(makes()); lists(i); arrays(i); } return 0; }
`, "-O1", "-fno-builtin", "-fno-optimize-sibling-calls")
	for _, lib := range []string{"", "libjemalloc.so.2"} {
		t.Run(strings.TrimSuffix("C++ library "+lib, " "), func(t *testing.T) {
			if lib != "" {
				t.Setenv("LD_PRELOAD", preloaded(t, lib))
			}
			p := provider(t, Options{})
			r := run(t, target)
			os.Unsetenv("LD_PRELOAD")
			columns := append(memoryColumns, "stack")
			_, allocated := start(t, p, testplan.Acquire(catalog.Allocation, r.target(), nil, columns...))
			_, released := start(t, p, testplan.Acquire(catalog.Deallocation, r.target(), nil, columns...))
			r.finish(success)
			made, sizes := map[string]int{}, map[int64]int{}
			for _, row := range allocated.wait(t).rows {
				for _, f := range frames(row[6]) {
					if f == "makes" || f == "lists" || f == "arrays" {
						made[f]++
						sizes[row[3].I]++
					}
				}
			}
			for _, row := range released.wait(t).rows {
				for _, f := range frames(row[6]) {
					if f == "drops" || f == "lists" || f == "arrays" {
						made["-"+f]++
					}
				}
			}
			want := map[string]int{"makes": 100, "lists": 100, "arrays": 100, "-drops": 100, "-lists": 100, "-arrays": 100}
			if diff := cmp.Diff(want, made); diff != "" {
				t.Error(diff)
			}
			if sizes[48] != 102 || sizes[8] != 2 || sizes[800] != 1 || sizes[99] != 1 {
				t.Error(sizes)
			}
			name := "malloc"
			if lib != "" {
				name = "operator new"
			}
			if n := tally(allocated.strings("function_name")); n[name] < 200 {
				t.Error(n)
			}
		})
	}
}

// Allocations of Go are those of its runtime, of any size and in any goroutine.
func TestAllocationsInGo(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/goallocates")
	p := provider(t, Options{})
	r := run(t, target)
	_, allocated := start(t, p, testplan.Acquire(catalog.Allocation, r.target(), nil, "function_name", "address", "size", "stack"))
	r.finish(success)
	sizes := map[string]map[int64]int{}
	addresses := map[int64]bool{}
	for _, row := range allocated.wait(t).rows {
		for _, f := range frames(row[3]) {
			if f == "main.makes" || f == "main.news" || f == "main.number" {
				if sizes[f] == nil {
					sizes[f] = map[int64]int{}
				}
				sizes[f][row[2].I]++
				if addresses[row[1].I] {
					t.Errorf("two allocations of what is still in use: %v", row)
				}
				addresses[row[1].I] = true
			}
		}
	}
	want := map[string]map[int64]int{"main.makes": {}, "main.news": {16: 300}, "main.number": {8: 300}}
	for i := range int64(300) {
		want["main.makes"][100+i*100] = 1
	}
	if diff := cmp.Diff(want, sizes); diff != "" || len(allocated.lost) > 0 {
		t.Error(diff, allocated.lost)
	}
	if _, err := p.Prepare(t.Context(), testplan.Acquire(catalog.Deallocation, run(t, target).target(), nil, "address")); err == nil || !strings.Contains(err.Error(), "release memory") {
		t.Errorf("deallocations of Go: %v", err)
	}
}
