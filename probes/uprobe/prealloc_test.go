package uprobe

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// The maps are created preallocated, and queries that use each of them still work:
// targets, calls under way, goroutines, groups and buckets.
func TestPreallocatedTables(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long down(long n) { sink++; return n == 0 ? 0 : 1 + down(n-1); }
int main(void) { ready(); for (int i = 0; i < 30; i++) down(99); return 0; }
`, "-O1", "-fno-optimize-sibling-calls", "-fcf-protection=none")
	p := provider(t, Options{Preallocate: true, Links: "multi"})
	check := func(src any) {
		t.Helper()
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, m := range p.active[src.(*source)].Objects.Maps {
			if m.Type() == ebpf.Hash && m.Flags()&unix.BPF_F_NO_PREALLOC != 0 {
				t.Errorf("the kernel allocates entries of %s as they come", name)
			}
		}
	}
	r := run(t, target)
	src, calls := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("down"), "arg0", "retval", "depth"))
	check(src)
	spec := aggregate(testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{target}}, testplan.Named("down"), "timestamp", "arg0"), 0,
		[]plan.Expr{col("arg0")}, agg("count"), agg("quantile", col("arg0")))
	counting, counted := start(t, p, spec)
	check(counting)
	r.finish(success)
	if n := len(calls.wait(t).rows); n != 3000 || len(calls.lost) > 0 {
		t.Errorf("%d rows, lost %v", n, calls.lost)
	}
	for i, row := range calls.rows {
		if row[0].I != row[1].I || row[2].I != 99-row[0].I {
			t.Fatalf("row %d: down(%d) = %d at depth %d", i, row[0].I, row[1].I, row[2].I)
		}
	}
	if err := counting.Stop(); err != nil {
		t.Fatal(err)
	}
	got := counted.wait(t)
	all := groups(t, spec, got.parts, got.rows)
	if len(all) != 100 || len(got.rows) > 0 {
		t.Errorf("%d groups, %d events singly", len(all), len(got.rows))
	}
	for key, g := range all {
		if g[0].N != 30 {
			t.Errorf("%s: %d calls", key, g[0].N)
		}
	}
}
