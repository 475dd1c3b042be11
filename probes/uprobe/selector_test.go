package uprobe

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"endoscope/planner/plan"
)

// A compiled condition has state: what several goroutines ask of modules, one after
// the other is answered.
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
	s, err := newSelector(inPlugin(), compile)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if ok, err := s.inModule("", "", "libplug.so"); !ok || err != nil {
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
