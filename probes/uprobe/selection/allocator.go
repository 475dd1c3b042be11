package selection

import (
	"regexp"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/elf"
)

// OfMemory reports whether a query reads allocation or deallocation, the streams of
// memory that allocators hand out and take back.
//
// The time of an allocation is the return of its call, when the address is known. The
// time of a deallocation is the entry of its call: from then on the memory may be
// handed out again. A realloc that succeeds is both, even if the memory does not move.
// Calls that fail and free(NULL) are neither. size is the requested size; for a
// deallocation it is NULL unless the call passes it.
func OfMemory(spec *plan.Acquire) bool {
	return spec.Stream == catalog.Allocation || spec.Stream == catalog.Deallocation
}

// arguments describes the arguments of an allocator's function (enum in memory.h).
type arguments uint32

const (
	takesSize arguments = iota + 1
	takesProduct
	takesProductSecond
	takesSizeSecond
	takesSizeThird
	resizes
	resizesToProduct
	resizesSecond
	resizesSecondToProduct
	releases
	releasesSized
	TakesText // the length of a text, which is unknown

	FirstArguments = 28 // bit of the cookie

	NoSize = ^uint64(0)
)

// Allocates and Releases report to which streams a function belongs.
func (a arguments) Allocates() bool { return a < releases || a == TakesText }

func (a arguments) Releases() bool { return a >= resizes && a != TakesText }

// Sizing says whether the sizes of allocations are known, which decides how the kernel
// tests sizes. Modules loaded while a query runs follow the choice made at its start.
type Sizing uint8

const (
	AsTheyAre    Sizing = iota
	MayBeUnknown        // the size of at least one function is unknown
	AreKnown            // functions whose sizes are unknown are left out
)

// TestsSizes reports whether the kernel may test or aggregate the sizes of
// allocations.
func TestsSizes(spec *plan.Acquire) bool {
	size := spec.Out.Index("size")
	if spec.Stream != catalog.Allocation || size < 0 {
		return false
	}
	tests := spec.Partial != nil
	if spec.Filter != nil {
		plan.Walk(spec.Filter, func(x plan.Expr) {
			c, ok := x.(*plan.Col)
			tests = tests || ok && c.Index == size
		})
	}
	return tests
}

// allocatorsOfC are the allocation functions of C. Allocators that may coexist with
// the C library's own add prefixes to these names.
var allocatorsOfC = map[string]arguments{
	"malloc": takesSize, "valloc": takesSize, "pvalloc": takesSize, "calloc": takesProduct,
	"aligned_alloc": takesSizeSecond, "memalign": takesSizeSecond, "posix_memalign": takesSizeThird,
	"realloc": resizes, "reallocarray": resizesToProduct,
	"free": releases, "cfree": releases, "free_sized": releasesSized, "free_aligned_sized": releases,
	// jemalloc's own functions; their last arguments are flags.
	"mallocx": takesSize, "rallocx": resizes, "dallocx": releases, "sdallocx": releasesSized,
}

// allocatorPrefixes are the prefixes of jemalloc (plain, and in Rust), tcmalloc and
// mimalloc.
var allocatorPrefixes = []string{"", "je_", "_rjem_", "tc_", "mi_"}

// allocatorsOfMimalloc are mimalloc's functions that have no counterpart in C.
var allocatorsOfMimalloc = map[string]arguments{
	"mi_malloc_small": takesSize, "mi_zalloc": takesSize, "mi_zalloc_small": takesSize,
	"mi_malloc_aligned": takesSize, "mi_malloc_aligned_at": takesSize, "mi_zalloc_aligned": takesSize, "mi_zalloc_aligned_at": takesSize,
	"mi_mallocn": takesProduct, "mi_calloc_aligned": takesProduct, "mi_calloc_aligned_at": takesProduct,
	"mi_realloc_aligned": resizes, "mi_realloc_aligned_at": resizes, "mi_rezalloc": resizes, "mi_rezalloc_aligned": resizes, "mi_rezalloc_aligned_at": resizes,
	"mi_reallocn": resizesToProduct, "mi_recalloc": resizesToProduct, "mi_recalloc_aligned": resizesToProduct, "mi_recalloc_aligned_at": resizesToProduct,
	"mi_new": takesSize, "mi_new_aligned": takesSize, "mi_new_nothrow": takesSize, "mi_new_aligned_nothrow": takesSize, "mi_new_n": takesProduct,
	"mi_new_realloc": resizes, "mi_new_reallocn": resizesToProduct,
	"mi_free_size": releasesSized, "mi_free_size_aligned": releasesSized, "mi_free_aligned": releases,
	// The remaining functions of this kind call these, or mi_malloc.
	"mi_strdup": TakesText, "mi_strndup": TakesText, "mi_wcsdup": TakesText, "mi_heap_strdup": TakesText, "mi_heap_strndup": TakesText,
	"mi_aligned_recalloc": resizesToProduct, "mi_aligned_offset_recalloc": resizesToProduct,
	// The first argument is a heap.
	"mi_heap_malloc": takesSizeSecond, "mi_heap_malloc_small": takesSizeSecond, "mi_heap_malloc_aligned": takesSizeSecond, "mi_heap_malloc_aligned_at": takesSizeSecond,
	"mi_heap_zalloc": takesSizeSecond, "mi_heap_zalloc_aligned": takesSizeSecond, "mi_heap_zalloc_aligned_at": takesSizeSecond,
	"mi_heap_alloc_new": takesSizeSecond, "mi_heap_alloc_new_n": takesProductSecond,
	"mi_heap_calloc": takesProductSecond, "mi_heap_calloc_aligned": takesProductSecond, "mi_heap_calloc_aligned_at": takesProductSecond, "mi_heap_mallocn": takesProductSecond,
	"mi_heap_realloc": resizesSecond, "mi_heap_realloc_aligned": resizesSecond, "mi_heap_realloc_aligned_at": resizesSecond,
	"mi_heap_rezalloc": resizesSecond, "mi_heap_rezalloc_aligned": resizesSecond, "mi_heap_rezalloc_aligned_at": resizesSecond,
	"mi_heap_reallocn": resizesSecondToProduct, "mi_heap_recalloc": resizesSecondToProduct, "mi_heap_recalloc_aligned": resizesSecondToProduct, "mi_heap_recalloc_aligned_at": resizesSecondToProduct,
}

// allocatorsOfCPP are the operators of C++, without the suffix of the variants that do
// not throw.
var allocatorsOfCPP = map[string]arguments{
	"_Znwm": takesSize, "_Znam": takesSize, "_ZnwmSt11align_val_t": takesSize, "_ZnamSt11align_val_t": takesSize,
	"_ZdlPv": releases, "_ZdaPv": releases, "_ZdlPvSt11align_val_t": releases, "_ZdaPvSt11align_val_t": releases,
	"_ZdlPvm": releasesSized, "_ZdaPvm": releasesSized, "_ZdlPvmSt11align_val_t": releasesSized, "_ZdaPvmSt11align_val_t": releasesSized,
}

const doesNotThrow = "RKSt9nothrow_t"

// allocatorsOfGo are the functions of Go's runtime that the compiler calls: since Go
// 1.26 also those for each size class of small objects.
var allocatorsOfGo = regexp.MustCompile(`^runtime\.mallocgc((SmallScanNoHeader|SmallNoScan)SC\d+|TinySize\d+)?$`)

// Allocator returns the arguments of an allocator's function; 0 if f is no allocator.
func Allocator(f *elf.Function) arguments {
	if f.Lang == elf.Go {
		if allocatorsOfGo.MatchString(f.Name) {
			return takesSize
		}
		return 0
	}
	for _, name := range append([]string{f.Mangled}, f.Aliases...) {
		if a := allocatorNamed(name); a != 0 {
			return a
		}
	}
	return 0
}

// allocatorNamed is Allocator for a function of C or C++, by its linker name.
func allocatorNamed(name string) arguments {
	if a := allocatorsOfCPP[strings.TrimSuffix(name, doesNotThrow)]; a != 0 {
		return a
	}
	if a := allocatorsOfMimalloc[name]; a != 0 {
		return a
	}
	for _, p := range allocatorPrefixes {
		if plain, ok := strings.CutPrefix(name, p); ok && allocatorsOfC[plain] != 0 {
			return allocatorsOfC[plain]
		}
	}
	return 0
}

func IsAllocator(name string) bool { return allocatorNamed(name) != 0 }

// IsOperator reports whether an allocator's function is an operator of C++, under any
// of its names. Operators that allocate may throw.
func IsOperator(f *elf.Function) bool {
	return isOperatorNamed(f.Mangled) || slices.ContainsFunc(f.Aliases, isOperatorNamed)
}

func isOperatorNamed(name string) bool {
	for _, prefix := range []string{"_Zn", "_Zd", "tc_new", "mi_new", "mi_heap_alloc_new"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
