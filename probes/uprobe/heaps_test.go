package uprobe

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// heaps calls the functions that mimalloc has besides C's, and prints what each
// allocated and released, and the size requested.
const heaps = prelude + `
#include <stdint.h>
typedef struct heap heap;
heap *mi_heap_new(void);
void mi_heap_delete(heap *), mi_free(void *);
#define F(name, ...) void *name(__VA_ARGS__)
F(mi_malloc_small, size_t); F(mi_zalloc, size_t); F(mi_mallocn, size_t, size_t); F(mi_calloc_aligned, size_t, size_t, size_t);
F(mi_malloc_aligned_at, size_t, size_t, size_t); F(mi_rezalloc, void *, size_t); F(mi_reallocn, void *, size_t, size_t); F(mi_reallocf, void *, size_t);
F(mi_recalloc_aligned, void *, size_t, size_t, size_t); F(mi_aligned_recalloc, void *, size_t, size_t, size_t);
F(mi_aligned_offset_recalloc, void *, size_t, size_t, size_t, size_t);
F(mi_heap_malloc, heap *, size_t); F(mi_heap_malloc_small, heap *, size_t); F(mi_heap_zalloc, heap *, size_t); F(mi_heap_malloc_aligned, heap *, size_t, size_t);
F(mi_heap_malloc_aligned_at, heap *, size_t, size_t, size_t); F(mi_heap_zalloc_aligned, heap *, size_t, size_t);
F(mi_heap_calloc, heap *, size_t, size_t); F(mi_heap_mallocn, heap *, size_t, size_t);
F(mi_heap_calloc_aligned, heap *, size_t, size_t, size_t); F(mi_heap_calloc_aligned_at, heap *, size_t, size_t, size_t, size_t);
F(mi_heap_alloc_new, heap *, size_t); F(mi_heap_alloc_new_n, heap *, size_t, size_t);
F(mi_heap_realloc, heap *, void *, size_t); F(mi_heap_realloc_aligned, heap *, void *, size_t, size_t); F(mi_heap_realloc_aligned_at, heap *, void *, size_t, size_t, size_t);
F(mi_heap_rezalloc, heap *, void *, size_t); F(mi_heap_rezalloc_aligned, heap *, void *, size_t, size_t);
F(mi_heap_reallocn, heap *, void *, size_t, size_t); F(mi_heap_reallocf, heap *, void *, size_t);
F(mi_heap_recalloc, heap *, void *, size_t, size_t); F(mi_heap_recalloc_aligned, heap *, void *, size_t, size_t, size_t);
F(mi_heap_recalloc_aligned_at, heap *, void *, size_t, size_t, size_t, size_t);
F(mi_strdup, const char *); F(mi_strndup, const char *, size_t); F(mi_mbsdup, const char *); F(mi_wcsdup, const unsigned short *);
F(mi_heap_strdup, heap *, const char *); F(mi_heap_strndup, heap *, const char *, size_t);
static struct { char op; void *address; long size; } said[4096];
static int n;
static void says(char op, void *p, long size) { if (!p) exit(9); said[n].op = op, said[n].address = p, said[n++].size = size; }
static void *kept;
static void frees(void) { says('-', kept, -1); mi_free(kept); kept = 0; }
#define gives(s, call) do { if (kept) frees(); says('+', kept = call, s); } while (0)
#define resizes(s, call) do { void *old = kept; kept = call; says('-', old, -1); says('+', kept, s); } while (0)
int main(void)
{
	heap *h = mi_heap_new();
	ready();
	gives(4242, mi_heap_malloc(h, 4242));
	for (long s = 8; s < 1000; s = s * 2 + 8) {
		gives(s, mi_malloc_small(s)); gives(s, mi_zalloc(s)); gives(3 * s, mi_mallocn(3, s)); gives(3 * s, mi_calloc_aligned(3, s, 64)); gives(s, mi_malloc_aligned_at(s, 64, 8));
		resizes(s + 1, mi_rezalloc(old, s + 1)); resizes(9 * s, mi_reallocn(old, 9, s)); resizes(2 * s, mi_reallocf(old, 2 * s));
		gives(s, mi_zalloc(s)); resizes(5 * s, mi_recalloc_aligned(old, 5, s, 32)); resizes(7 * s, mi_aligned_recalloc(old, 7, s, 32)); resizes(8 * s, mi_aligned_offset_recalloc(old, 8, s, 32, 8));
		gives(s, mi_heap_malloc(h, s)); gives(s, mi_heap_malloc_small(h, s)); gives(s, mi_heap_zalloc(h, s)); gives(s, mi_heap_malloc_aligned(h, s, 64));
		gives(s, mi_heap_malloc_aligned_at(h, s, 64, 8)); gives(s, mi_heap_zalloc_aligned(h, s, 32)); gives(3 * s, mi_heap_calloc(h, 3, s)); gives(5 * s, mi_heap_mallocn(h, 5, s));
		gives(3 * s, mi_heap_calloc_aligned(h, 3, s, 64)); gives(5 * s, mi_heap_calloc_aligned_at(h, 5, s, 64, 8)); gives(s, mi_heap_alloc_new(h, s)); gives(7 * s, mi_heap_alloc_new_n(h, 7, s));
		resizes(3 * s, mi_heap_realloc(h, old, 3 * s)); resizes(11 * s, mi_heap_realloc_aligned(h, old, 11 * s, 64)); resizes(s, mi_heap_realloc_aligned_at(h, old, s, 64, 8));
		gives(s, mi_heap_zalloc(h, s)); resizes(3 * s, mi_heap_rezalloc(h, old, 3 * s)); resizes(9 * s, mi_heap_rezalloc_aligned(h, old, 9 * s, 64));
		resizes(20 * s, mi_heap_reallocn(h, old, 20, s)); resizes(s, mi_heap_reallocf(h, old, s));
		gives(s, mi_heap_zalloc(h, s)); resizes(3 * s, mi_heap_recalloc(h, old, 3, s)); resizes(9 * s, mi_heap_recalloc_aligned(h, old, 9, s, 64)); resizes(12 * s, mi_heap_recalloc_aligned_at(h, old, 12, s, 64, 8));
		static const unsigned short wide[] = {'w', 'i', 'd', 'e', 0};
		gives(-1, mi_strdup("text")); gives(-1, mi_strndup("text", s)); gives(-1, mi_mbsdup("text")); gives(-1, mi_wcsdup(wide)); /* of sizes that are not told */
		gives(-1, mi_heap_strdup(h, "text")); gives(-1, mi_heap_strndup(h, "text", 2));
		if (mi_heap_realloc(h, kept, PTRDIFF_MAX) || mi_heap_reallocn(h, kept, SIZE_MAX / 2, 4) || mi_heap_calloc(h, SIZE_MAX / 2, 4)) exit(8);
		says('-', kept, -1);
		if (mi_reallocf(kept, PTRDIFF_MAX)) exit(7);
		kept = 0;
	}
	mi_heap_delete(h);
	for (int i = 0; i < n; i++) printf("%c %lx %ld\n", said[i].op, (long)said[i].address, said[i].size);
	return 0;
}`

// Allocations and releases in heaps of mimalloc are reported call by call; a failed call
// is no row.
func TestAllocationsOfHeaps(t *testing.T) {
	testenv.NeedUprobes(t)
	library := preloaded(t, "libmimalloc.so.2.0")
	target := testenv.CompileCText(t, heaps, "-O1", "-fno-builtin", "-Wl,--no-as-needed", library, "-Wl,-rpath,"+filepath.Dir(library))
	p := provider(t, Options{})
	r := runCommand(t, exec.Command(target))
	_, allocated := start(t, p, testplan.Acquire(catalog.Allocation, r.target(), nil, heapColumns...))
	_, released := start(t, p, testplan.Acquire(catalog.Deallocation, r.target(), nil, heapColumns...))
	want := r.finish(success)
	allocated.wait(t)
	released.wait(t)
	if len(allocated.lost)+len(released.lost) > 0 {
		t.Error(allocated.lost, released.lost)
	}
	var got, names []string
	for _, rows := range byThread(allocated, released) {
		rows = rows[max(0, slices.IndexFunc(rows, func(o observed) bool { return o.size == 4242 })):]
		for _, o := range rows[:min(len(rows), len(want))] { // later rows are from printing
			got = append(got, fmt.Sprintf("%c %x %d", o.op, o.address, o.size))
			names = append(names, o.name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%d rows, the program says %d\n%s\n%s", len(got), len(want), diff, strings.Join(names, " "))
	}
}

// Operators that a program defines, over memory of its own, are treated as its
// allocator.
func TestAllocationsOfOwnOperators(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
#include <new>
static char pool[1 << 20];
static size_t used;
void *operator new(size_t n) { if (n > sizeof pool - used) throw std::bad_alloc(); void *p = pool + used; used += (n + 15) & ~15ul; return p; }
void operator delete(void *p) noexcept { sink += (long)p; }
void operator delete(void *p, size_t n) noexcept { sink += (long)p + n; }
struct Thing { long a[5]; };
NOINLINE Thing *makes() { return new Thing; }
NOINLINE void drops(Thing *t) { delete t; }
NOINLINE void arrays(long n) { char *c = new char[n]; sink += (long)c; delete[] c; }
int main() { ready(); for (long i = 1; i <= 100; i++) { drops(makes()); arrays(i); } try { arrays(1 << 21); } catch (std::bad_alloc &) { return 0; } return 1; }
`, "-O1", "-fno-builtin", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	own := testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("operator %"))
	_, allocated := start(t, p, testplan.Acquire(catalog.Allocation, r.target(), own, "function_name", "size"))
	_, released := start(t, p, testplan.Acquire(catalog.Deallocation, r.target(), own, "function_name", "size"))
	r.finish(success)
	total := func(rec *record) (n, size int64) {
		for _, row := range rec.wait(t).rows {
			n, size = n+1, size+row[1].I
		}
		return
	}
	if n, size := total(allocated); n != 200 || size != 100*40+5050 {
		t.Errorf("%d allocations of %d bytes", n, size)
	}
	if n, size := total(released); n != 200 || size != 100*40 {
		t.Errorf("%d deallocations of %d bytes", n, size) // those of arrays are not reported
	}
}
