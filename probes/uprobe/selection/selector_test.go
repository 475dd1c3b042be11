package selection

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/plan"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/internal/testplan"
)

// A compiled condition has state: calls of InModule by several goroutines are
// serialised.
func TestModulesAreAskedForOneByOne(t *testing.T) {
	var inside, overlaps atomic.Int32
	compile := func(plan.Expr) (func(name, class, module string) (bool, error), error) {
		return func(_, _, module string) (bool, error) {
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			runtime.Gosched()
			inside.Add(-1)
			return module == "libplug.so", nil
		}, nil
	}
	s, err := New(testplan.InPlugin(), compile)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if ok, err := s.InModule("", "", "libplug.so"); !ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
			}
		})
	}
	all.Wait()
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d of 8000 while another was being answered", n)
	}
}

func TestNameList(t *testing.T) {
	x := testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("x%"))
	for _, c := range []struct {
		name string
		sel  plan.Expr
		want []string // nil: no restriction to names
	}{
		{"equality", testplan.Is(plan.SelectName, "a"), []string{"a"}},
		{"equality, reversed", testplan.Call("=", testplan.Constant("a"), testplan.SelectColumn(plan.SelectName)), []string{"a"}},
		{"list", testplan.Named("a", "b"), []string{"a", "b"}},
		{"conjunct", testplan.Call("and", x, testplan.Is(plan.SelectName, "a")), []string{"a"}},
		{"disjunction of names", testplan.Call("or", testplan.Is(plan.SelectName, "a"), testplan.Named("b", "c")), []string{"a", "b", "c"}},
		{"disjunction with a pattern", testplan.Call("or", testplan.Is(plan.SelectName, "a"), x), nil},
		{"disjunction with another column", testplan.Call("or", testplan.Is(plan.SelectName, "a"), testplan.Is(plan.SelectClass, "c")), nil},
		{"of another column", testplan.Is(plan.SelectClass, "a"), nil},
		{"negated", testplan.Call("not", testplan.Is(plan.SelectName, "a")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, l := range NameList(c.sel) {
				got = append(got, l.V.S)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSelectorAndModules(t *testing.T) {
	onlyModule := testplan.Is(plan.SelectModule, "libc.so.6")
	for _, c := range []struct {
		name    string
		sel     plan.Expr
		mention bool // modules at all
		libc    bool // libc.so.6 may have some
		other   bool // so may libm.so.6
	}{
		{"everything", nil, false, false, false},
		{"names only", testplan.Named("a"), false, false, false},
		{"one module", testplan.Call("and", testplan.Named("a"), onlyModule), true, true, false},
		{"not one module", testplan.Call("and", testplan.Named("a"), testplan.Call("not", onlyModule)), true, false, true},
		{"module and name entangled", testplan.Call("or", testplan.Named("a"), onlyModule), true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.sel, testplan.Match)
			if err != nil {
				t.Fatal(err)
			}
			if s.InModule == nil {
				if c.mention {
					t.Fatal("the predicate mentions modules")
				}
				return
			}
			libc, _ := s.InModule("", "", "libc.so.6")
			other, _ := s.InModule("", "", "libm.so.6")
			if !c.mention || libc != c.libc || other != c.other {
				t.Errorf("libc %v, libm %v", libc, other)
			}
		})
	}
}

// A function has several names; the row shows the one that was selected.
func TestMatchedByAnyName(t *testing.T) {
	f := &elf.Function{Name: "ns::f", Mangled: "_ZN2ns1fEv", Aliases: []string{"f_alias"}, Class: "ns"}
	for _, name := range []string{f.Name, f.Mangled, f.Aliases[0]} {
		s, _ := New(testplan.Is(plan.SelectName, name), testplan.Match)
		got, ok, err := s.matched(f, "m")
		if got != name || !ok || err != nil {
			t.Errorf("asked for %s: %s, %v, %v", name, got, ok, err)
		}
	}
	s, _ := New(testplan.Named("f_alias", "ns::f"), testplan.Match)
	if got, _, _ := s.matched(f, "m"); got != "ns::f" {
		t.Errorf("of several names asked for, %s is shown, not the one users see first", got)
	}
	s, _ = New(testplan.Is(plan.SelectName, "g"), testplan.Match)
	if _, ok, _ := s.matched(f, "m"); ok {
		t.Error("g matched f")
	}
}
