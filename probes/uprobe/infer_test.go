package uprobe

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
)

const inferable = prelude + `
NOINLINE static long shared(long n) { sink += n; return n; }
NOINLINE long left(long n) { return shared(n) + 1; }
/* An instruction of AMD's FMA4, which is not executed. */
NOINLINE long right(long n) { long r = shared(n); if (r < 0) asm volatile("vfmaddsd %xmm0, %xmm1, %xmm2, %xmm3"); return r + 2; }
NOINLINE long alone(long n) { sink += n; return n; }
int main(void) { ready(); for (int i = 0; i < 100; i++) { sink += left(i) + alone(i); if (i % 4 == 0) sink += right(i); } }
`

func countByFunction(r *running, names ...string) *plan.Acquire {
	return aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named(names...), "timestamp", "function_name"), 0,
		[]plan.Expr{col("function_name")}, agg("count"))
}

// counted returns the counts of a record, from partial rows and rows.
func counted(t *testing.T, spec *plan.Acquire, r *record) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for name, states := range groups(t, spec, r.parts, r.rows) {
		out[strings.TrimSuffix(strings.Fields(name)[0], "0")] = states[0].N
	}
	return out
}

// Inferred functions are counted even where calls become rows because the kernel finds
// no room for their groups.
func TestInferredRows(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, inferable, "-O1", "-rdynamic"))
	p := provider(t, Options{})
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("left", "right", "shared"), "timestamp", "function_name", "tid"), 0,
		[]plan.Expr{col("function_name"), col("tid")}, agg("count"))
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	src.(*source).aggregation.Limit = 1
	sink := newRecord(spec)
	if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	r.finish(success)
	sink.wait(t)
	if len(sink.rows) == 0 || len(sink.parts) == 0 {
		t.Errorf("%d rows and %d partial rows, want some of both", len(sink.rows), len(sink.parts))
	}
	want := map[string]int64{"left": 100, "right": 25, "shared": 125}
	if got := counted(t, spec, sink); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// Functions inferred from one that the kernel refuses are not counted partially; they
// are reported by name.
func TestInferredFromRefused(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, inferable, "-O1", "-rdynamic"))
	p := provider(t, Options{})
	spec := countByFunction(r, "left", "right", "shared", "alone")
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s := src.(*source)
	if len(s.resolution.Inferred) != 1 {
		t.Fatalf("%d functions are inferred, want shared alone", len(s.resolution.Inferred))
	}
	// As if right had been assumed to have an instruction that the kernel refuses.
	w := &s.resolution.Functions[slices.IndexFunc(s.resolution.Functions, func(w calls.Function) bool { return w.Label.Function == "right" })]
	code := make([]byte, 64)
	if _, err := s.resolution.Modules.List[0].File.ReadAt(code, int64(w.Site.Offset)); err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(code), "\xc4\xe3")
	if at < 0 {
		t.Fatalf("no such instruction in % x", code)
	}
	w.Site.Offset += uint64(at)
	sink := newRecord(spec)
	if err := src.Start(t.Context(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	r.finish(success)
	if n := strings.Join(src.Info().Notices, "; "); !strings.Contains(n, "shared (it would be inferred from right, which is not monitored)") {
		t.Errorf("notices %q", n)
	}
	want := map[string]int64{"left": 100, "alone": 100}
	if got := counted(t, spec, sink.wait(t)); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// Inferences from the file do not apply to a program that has modified its calls.
func TestInferredOfPatchedCode(t *testing.T) {
	testenv.NeedUprobes(t)
	const text = prelude + `
#include <sys/mman.h>
NOINLINE static long shared(long n) { sink += n; return n; }
NOINLINE long instead(long n) { sink -= n; return n; }
NOINLINE long left(long n) { long r = shared(n + 1); return r + n; }
int main(int argc, char **argv) {
	if (argc > 1) { /* left calls instead, not shared */
		char *p = (char *)left;
		while (*p != (char)0xe8) p++;
		char *page = (char *)((long)p & -4096);
		mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
		int rel = (char *)instead - (p + 5);
		memcpy(p + 1, &rel, 4);
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
	}
	ready();
	for (int i = 0; i < 100; i++) sink += left(i);
}
`
	target := testenv.CompileCText(t, text, "-O1", "-rdynamic")
	for _, c := range []struct {
		args     []string
		inferred int
		want     map[string]int64
	}{
		{nil, 1, map[string]int64{"left": 100, "shared": 100}},
		{[]string{"patched"}, 0, map[string]int64{"left": 100, "instead": 100}},
	} {
		r := run(t, target, c.args...)
		spec := countByFunction(r, "left", "shared", "instead")
		src, sink := start(t, provider(t, Options{}), spec)
		if n := len(src.(*source).resolution.Inferred); n != c.inferred {
			t.Errorf("%v: %d functions are inferred, want %d; %v", c.args, n, c.inferred, src.Info().Notices)
		}
		r.finish(success)
		if got := counted(t, spec, sink.wait(t)); !maps.Equal(got, c.want) {
			t.Errorf("%v: counted %v, want %v", c.args, got, c.want)
		}
	}
}
