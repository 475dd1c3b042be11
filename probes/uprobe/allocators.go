package uprobe

import (
	"regexp"
	"slices"
	"strings"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

// The streams of memory that is allocated and released: of the calls of
// allocators, the outermost of each thread or goroutine.
const (
	Allocation   = catalog.Allocation
	Deallocation = catalog.Deallocation
)

// The time of an allocation is the return of its call, when the address is known. The
// time of a deallocation is the entry of its call: from then on the memory may be handed
// out again. A realloc that succeeds is both, even if the memory does not move. Calls that
// fail and free(NULL) are neither. size is the requested size; of a deallocation it is
// NULL unless the call passes it.

// ofMemory reports whether a query is of one of these streams.
func ofMemory(spec *plan.Acquire) bool {
	return spec.Stream == Allocation || spec.Stream == Deallocation
}

// arguments is what an allocator's function is given (enum in memory.h).
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
	takesText // as much as a text takes, which is not known

	firstArguments = 28 // bit of the cookie

	noSize = ^uint64(0)
)

// allocates and releases report of which streams a function is.
func (a arguments) allocates() bool { return a < releases || a == takesText }
func (a arguments) releases() bool  { return a >= resizes && a != takesText }

// sizing says of allocations whether their sizes are told, which makes of a test of the size
// another in the kernel. Modules that come while a query runs do as those before.
type sizing uint8

const (
	asTheyAre    sizing = iota
	mayBeUnknown        // because one's is
	areKnown            // functions of which they are not are left out
)

// testsSizes reports whether the kernel may test, or add up, the sizes of allocations.
func testsSizes(spec *plan.Acquire) bool {
	size := spec.Out.Index("size")
	if spec.Stream != Allocation || size < 0 {
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

// sizesBeside is what a module has to do that comes beside those of a source; nil: there
// are none.
func sizesBeside(spec *plan.Acquire, first *source) sizing {
	switch {
	case !testsSizes(spec):
		return asTheyAre
	case first != nil && slices.ContainsFunc(first.resolution.wants, func(w want) bool { return w.unsized }):
		return mayBeUnknown
	}
	return areKnown
}

// allocatorsOfC are the functions of C, to which allocators that may be beside the
// C library's own add prefixes.
var allocatorsOfC = map[string]arguments{
	"malloc": takesSize, "valloc": takesSize, "pvalloc": takesSize, "calloc": takesProduct,
	"aligned_alloc": takesSizeSecond, "memalign": takesSizeSecond, "posix_memalign": takesSizeThird,
	"realloc": resizes, "reallocarray": resizesToProduct,
	"free": releases, "cfree": releases, "free_sized": releasesSized, "free_aligned_sized": releases,
	// jemalloc's own, whose last arguments are flags.
	"mallocx": takesSize, "rallocx": resizes, "dallocx": releases, "sdallocx": releasesSized,
}

// allocatorPrefixes are those of jemalloc, as it is and in Rust, of tcmalloc and mimalloc.
var allocatorPrefixes = []string{"", "je_", "_rjem_", "tc_", "mi_"}

// allocatorsOfMimalloc are those of its functions that C has not.
var allocatorsOfMimalloc = map[string]arguments{
	"mi_malloc_small": takesSize, "mi_zalloc": takesSize, "mi_zalloc_small": takesSize,
	"mi_malloc_aligned": takesSize, "mi_malloc_aligned_at": takesSize, "mi_zalloc_aligned": takesSize, "mi_zalloc_aligned_at": takesSize,
	"mi_mallocn": takesProduct, "mi_calloc_aligned": takesProduct, "mi_calloc_aligned_at": takesProduct,
	"mi_realloc_aligned": resizes, "mi_realloc_aligned_at": resizes, "mi_rezalloc": resizes, "mi_rezalloc_aligned": resizes, "mi_rezalloc_aligned_at": resizes,
	"mi_reallocn": resizesToProduct, "mi_recalloc": resizesToProduct, "mi_recalloc_aligned": resizesToProduct, "mi_recalloc_aligned_at": resizesToProduct,
	"mi_new": takesSize, "mi_new_aligned": takesSize, "mi_new_nothrow": takesSize, "mi_new_aligned_nothrow": takesSize, "mi_new_n": takesProduct,
	"mi_new_realloc": resizes, "mi_new_reallocn": resizesToProduct,
	"mi_free_size": releasesSized, "mi_free_size_aligned": releasesSized, "mi_free_aligned": releases,
	// The others of the kind call these, or mi_malloc.
	"mi_strdup": takesText, "mi_strndup": takesText, "mi_wcsdup": takesText, "mi_heap_strdup": takesText, "mi_heap_strndup": takesText,
	"mi_aligned_recalloc": resizesToProduct, "mi_aligned_offset_recalloc": resizesToProduct,
	// Their first argument is a heap.
	"mi_heap_malloc": takesSizeSecond, "mi_heap_malloc_small": takesSizeSecond, "mi_heap_malloc_aligned": takesSizeSecond, "mi_heap_malloc_aligned_at": takesSizeSecond,
	"mi_heap_zalloc": takesSizeSecond, "mi_heap_zalloc_aligned": takesSizeSecond, "mi_heap_zalloc_aligned_at": takesSizeSecond,
	"mi_heap_alloc_new": takesSizeSecond, "mi_heap_alloc_new_n": takesProductSecond,
	"mi_heap_calloc": takesProductSecond, "mi_heap_calloc_aligned": takesProductSecond, "mi_heap_calloc_aligned_at": takesProductSecond, "mi_heap_mallocn": takesProductSecond,
	"mi_heap_realloc": resizesSecond, "mi_heap_realloc_aligned": resizesSecond, "mi_heap_realloc_aligned_at": resizesSecond,
	"mi_heap_rezalloc": resizesSecond, "mi_heap_rezalloc_aligned": resizesSecond, "mi_heap_rezalloc_aligned_at": resizesSecond,
	"mi_heap_reallocn": resizesSecondToProduct, "mi_heap_recalloc": resizesSecondToProduct, "mi_heap_recalloc_aligned": resizesSecondToProduct, "mi_heap_recalloc_aligned_at": resizesSecondToProduct,
}

// allocatorsOfCPP are the operators of C++, without the suffix by which they do
// not throw.
var allocatorsOfCPP = map[string]arguments{
	"_Znwm": takesSize, "_Znam": takesSize, "_ZnwmSt11align_val_t": takesSize, "_ZnamSt11align_val_t": takesSize,
	"_ZdlPv": releases, "_ZdaPv": releases, "_ZdlPvSt11align_val_t": releases, "_ZdaPvSt11align_val_t": releases,
	"_ZdlPvm": releasesSized, "_ZdaPvm": releasesSized, "_ZdlPvmSt11align_val_t": releasesSized, "_ZdaPvmSt11align_val_t": releasesSized,
}

const doesNotThrow = "RKSt9nothrow_t"

// allocatorsOfGo are the functions of Go's runtime to which the compiler turns:
// since Go 1.26 those for each size class of small objects, too.
var allocatorsOfGo = regexp.MustCompile(`^runtime\.mallocgc((SmallScanNoHeader|SmallNoScan)SC\d+|TinySize\d+)?$`)

// allocator is what a function does of that; 0: it is none.
func allocator(f *elf.Function) arguments {
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

// allocatorNamed is allocator of a function of C or C++, by a name as linkers have it.
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

func isAllocator(name string) bool { return allocatorNamed(name) != 0 }

// isOperator reports whether an allocator's function is an operator of C++, be it by
// another name that it has: those that allocate may throw.
func isOperator(f *elf.Function) bool {
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

// allocators are the functions of a module that a query of such a stream is
// about. The operators of C++ are, where they are an allocator's or the program's
// own: the C++ library's always call malloc and free, which are observed at less
// cost. An allocator's may call them for some blocks alone.
func (s *selector) allocators(m *elf.Module, module string) (out []choice, err error) {
	for i, f := range m.All() {
		a := allocator(&f)
		if a == 0 || s.memory == Allocation && !a.allocates() || s.memory == Deallocation && !a.releases() {
			continue
		}
		if isOperator(&f) && !codesite.In(m).MayAvoid(i, isAllocator) {
			continue
		}
		if a == takesText && s.sizes == areKnown {
			s.leftOut.Store(true)
			continue
		}
		name, ok := f.Name, true
		if s.match != nil {
			if name, ok, err = s.matched(&f, module); err != nil {
				return nil, err
			}
		}
		if ok {
			out = append(out, choice{i, name, f.Class, f.Lang})
		}
	}
	return out, nil
}

// addStarting adds the libraries of processes that have only begun.
func (s *moduleSet) addStarting(t plan.Target, running []process.Process) error {
	programs, err := findModules(t, running, &selector{})
	if err != nil {
		return err
	}
	defer programs.close()
	return s.addComing(programs, func(string) bool { return true })
}

// allocatorTrap reports whether the return of an allocator's function may be
// trapped. Nothing is thrown or unwound through those of C, nor through operators
// that release: they call nobody back, and are no cancellation points. reason
// says why not.
func allocatorTrap(sym *elf.Module, i int) (safe bool, reason string) {
	f := sym.Function(i)
	if isOperator(&f) && !allocator(&f).releases() {
		return codesite.In(sym).ReturnTrap(i)
	}
	return codesite.In(sym).ReturnTrapOfNoexcept(i)
}

// allocatorExits are the exits of a function that allocates, with those of the
// functions that it goes on as: they return the address. A call that goes on as
// another allocator's is one of that: nothing is returned at such an exit. reason says why the exits are not known.
func (r *resolver) allocatorExits(sym *elf.Module, i int, exits []codesite.Site) (all []codesite.Site, reason string) {
	f := sym.Function(i)
	a := allocator(&f)
	if !a.allocates() {
		all = slices.Clone(exits)
		for k := range all {
			all[k].RetvalReady = !codesite.In(sym).LeavesTo(all[k], isAllocator)
		}
		return all, ""
	}
	if f.Lang == elf.Go || codesite.In(sym).CallsAny(i, isAllocator) {
		return exits, ""
	}
	seen := map[int]bool{i: true}
	for n := 0; n < len(exits); n++ {
		s := exits[n]
		if s.RetvalReady {
			all = append(all, s)
			continue
		}
		target, ok := codesite.In(sym).TailTarget(s)
		if !ok || len(seen) > maxTails {
			return nil, "it leaves by a jump to a function that is not observed, which returns the address"
		}
		if seen[target] {
			continue
		}
		seen[target] = true
		more, err := codesite.In(sym).ExitSitesFor(target, codesite.Need{Value: true, Prices: r.costs.sites()})
		if err != nil {
			return nil, "it leaves by a jump to " + sym.Function(target).Name + ", which " + err.Error()
		}
		exits = append(exits, more...)
	}
	return all, ""
}

// maxTails bounds how many functions one goes on as.
const maxTails = 8

// noAllocator is the refusal where no module has an allocator.
func (r *resolver) noAllocator(opened []*elf.Module) *plan.Error {
	e := plan.Errorf(r.spec.Start, r.spec.Stop, "no functions that %s are known in %s", map[string]string{Allocation: "allocate memory", Deallocation: "release memory"}[r.spec.Stream], r.where())
	if r.spec.Stream == Deallocation && slices.ContainsFunc(opened, func(m *elf.Module) bool { return m.HasGo() }) {
		return e.WithHint("Go's garbage collector releases memory without calls that could be observed")
	}
	return e.WithHint("malloc and its like are looked for in all modules of the target that are loaded, operators new and delete, and Go's mallocgc")
}
