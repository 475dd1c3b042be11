package uprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/resolve"
)

// A function that only the kernel knows to be unsuitable is skipped and reported by
// name; the others are observed, and the program runs as before.
func TestFunctionThatTheKernelRefuses(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long one(long n) { sink += n; return n; }
NOINLINE long two(long n) { sink += n; return n + 1; }
NOINLINE long three(long n) { sink += n; return n + 2; }
/* An instruction of AMD's FMA4, which is not executed. */
NOINLINE long four(long n) { if (n < 0) asm volatile("vfmaddsd %xmm0, %xmm1, %xmm2, %xmm3"); sink += n; return n; }
int main(void) { ready(); for (int i = 0; i < 5; i++) sink += one(i) + two(i) + three(i) + four(i); }
`, "-O1")
	for _, links := range []string{"", "multi", "perf"} {
		t.Run("links "+links, func(t *testing.T) {
			r := run(t, target)
			p := provider(t, Options{Links: links})
			spec := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("one", "two", "three", "four"), "function_name")
			src, err := p.Prepare(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			// As if the instruction had been classified as one of the first block.
			s := src.(*source)
			for i := range s.resolution.Functions {
				w := &s.resolution.Functions[i]
				if w.Label.Function != "four" {
					continue
				}
				code := make([]byte, 64)
				if _, err := s.resolution.Modules.List[0].File.ReadAt(code, int64(w.Site.Offset)); err != nil {
					t.Fatal(err)
				}
				at := strings.Index(string(code), "\xc4\xe3")
				if at < 0 {
					t.Fatalf("no such instruction in % x", code)
				}
				w.Site.Offset += uint64(at)
			}
			sink := newRecord(spec)
			if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { src.Stop() })
			if n := strings.Join(src.Info().Notices, "; "); !strings.Contains(n, "1 function is not monitored: four (the kernel refuses to probe it: ") {
				t.Errorf("notices %q", n)
			}
			if n := len(src.Info().Sites); n != 3 {
				t.Errorf("%d sites, want 3", n)
			}
			r.finish(success)
			if diff := cmp.Diff(map[string]int{"one": 5, "two": 5, "three": 5}, tally(sink.wait(t).strings("function_name"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A C++ exception thrown by a callback passes through the library that called it,
// although that is written in C. A program in C has no exceptions.
func TestLibrariesThatExceptionsPassThrough(t *testing.T) {
	testenv.NeedUprobes(t)
	const library = `
__attribute__((noinline)) long lib_leaf(long n) { return n * 2; }
__attribute__((noinline)) long lib_walk(long n, long (*f)(long)) { long r = f(n); return r + lib_leaf(n); }
`
	const main = `
static long visit(long n) {
#ifdef __cplusplus
	if (n == 3) throw std::runtime_error("three");
#endif
	return n;
}
int main(void) {
	ready();
#ifdef __cplusplus
	try { lib_walk(3, visit); return 1; } catch (const std::exception &) { }
#endif
	return lib_walk(4, visit) != 12;
}
`
	for _, c := range []struct{ name, main, want string }{
		{"main.c", "long lib_walk(long, long (*)(long));\n" + main, "entry+return"},
		{"main.cc", "#include <stdexcept>\nextern \"C\" long lib_walk(long, long (*)(long));\n" + main, "entry+exits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			lib := filepath.Join(dir, "libwalk.so")
			if err := os.Rename(testenv.CompileCText(t, library, "-O2", "-shared", "-fPIC"), lib); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.name)
			if err := os.WriteFile(file, []byte(prelude+c.main), 0o644); err != nil {
				t.Fatal(err)
			}
			r := run(t, testenv.CompileC(t, file, "-O1", "-Wl,--no-as-needed", "-Wl,-rpath,"+dir, lib))
			p := provider(t, Options{})
			src, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Is(plan.SelectModule, "libwalk.so"), "function_name"))
			if err != nil {
				t.Fatal(err)
			}
			if err := src.Start(t.Context(), newRecord(src.(*source).spec), probes.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { src.Stop() })
			kinds := map[string]string{}
			for _, s := range src.Info().Sites {
				if s.Kind != resolve.KindExit && s.Kind != resolve.KindLandmark {
					kinds[s.Function] = s.Kind
				}
			}
			if !strings.HasPrefix(kinds["lib_walk"], c.want) {
				t.Errorf("returns of lib_walk are observed by %q, want %q", kinds["lib_walk"], c.want)
			}
			r.finish(success)
		})
	}
}
