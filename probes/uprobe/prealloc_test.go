package uprobe

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// Every hash table of the programs is told to have its memory from the
// beginning, and no other map is: thread storage cannot, arrays have it anyway.
func TestPreallocate(t *testing.T) {
	spec, err := bpf.LoadFunction()
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]uint32{}
	for name, m := range spec.Maps {
		was[name] = m.Flags
		m.MaxEntries = max(m.MaxEntries, 1<<18)
	}
	boundPreallocated(spec.Maps)
	for name, m := range spec.Maps {
		if m.MaxEntries < 1<<18 {
			t.Errorf("%s is bounded before it is preallocated", name)
		}
	}
	preallocate(spec.Maps)
	boundPreallocated(spec.Maps)
	tables := 0
	for name, m := range spec.Maps {
		if m.Type != ebpf.Hash {
			if m.Flags != was[name] || m.MaxEntries < 1<<18 {
				t.Errorf("%s, a %s, has been changed", name, m.Type)
			}
			continue
		}
		tables++
		if was[name]&unix.BPF_F_NO_PREALLOC == 0 {
			t.Errorf("%s is preallocated where it need not be", name)
		}
		if m.Flags&unix.BPF_F_NO_PREALLOC != 0 {
			t.Errorf("%s is not preallocated", name)
		}
		if size := m.MaxEntries * (m.KeySize + m.ValueSize); size > maxPreallocated || size < maxPreallocated/4 {
			t.Errorf("%s takes %d bytes", name, size)
		}
	}
	if tables != 9 {
		t.Errorf("there are %d hash tables", tables)
	}
}

// What the kernel is given when tables are preallocated, and that queries that
// use each of them are none the worse: targets, calls under way, goroutines,
// groups and buckets.
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
		for name, m := range p.active[src.(*source)].objects.Maps {
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
