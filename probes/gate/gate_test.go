package gate

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"endoscope/probes/clock"
	"endoscope/probes/testenv"
)

func gateOf(t *testing.T) (*Gate, int64) {
	s, err := NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Gate(0), clock.Now()
}

func TestOpenUntil(t *testing.T) {
	g, now := gateOf(t)
	if g.Admits(now) {
		t.Error("a new gate is open")
	}
	g.Open(now, now+100)
	for _, c := range []struct {
		at   int64
		want bool
	}{{0, true}, {50, true}, {100, true}, {101, false}} {
		if g.Admits(now+c.at) != c.want {
			t.Errorf("open at %d: %v", c.at, !c.want)
		}
	}
	g.Open(now+10, now+20) // opening for a shorter time changes nothing
	if !g.Admits(now + 100) {
		t.Error("opening has shut the gate")
	}
}

// TestOpeningsCountAfterForce: openings while the gate was forced count when it
// no longer is.
func TestOpeningsCountAfterForce(t *testing.T) {
	g, now := gateOf(t)
	g.Force(true)
	if !g.Admits(now) || !g.Forced() {
		t.Error("a forced gate is shut")
	}
	g.Open(now, now+100)
	g.Force(false)
	if !g.Admits(now+100) || g.Admits(now+101) {
		t.Error("the gate is not open as it would be without force")
	}
}

// TestOverlappingOpeningsCountOnce: overlapping openings count once, and future
// time not yet.
func TestOverlappingOpeningsCountOnce(t *testing.T) {
	g, now := gateOf(t)
	g.Open(now, now+100)
	g.Open(now+50, now+150)
	g.Open(now+50, now+120)
	g.Open(now+1000, now+1100)
	for _, c := range []struct{ at, want int64 }{{1100, 250}, {5000, 250}, {1040, 190}} {
		if ns, times := g.Opened(now + c.at); ns != c.want || times != 2 {
			t.Errorf("at %d: open for %d in %d openings, want %d in 2", c.at, ns, times, c.want)
		}
	}
}

func TestRest(t *testing.T) {
	g, now := gateOf(t)
	g.Open(now, now+100)
	g.Rest(now + restAfter)
	if g.until.Load() == 0 {
		t.Error("the gate rests too early")
	}
	g.Rest(now + restAfter + 101)
	if g.until.Load() != 0 {
		t.Error("the gate does not rest")
	}
	if ns, _ := g.Opened(now + restAfter + 101); ns != 100 {
		t.Errorf("open for %d", ns)
	}
}

// TestConcurrentOpeners: the total is that of the union of all openings.
func TestConcurrentOpeners(t *testing.T) {
	g, now := gateOf(t)
	var wg sync.WaitGroup
	for i := range int64(4) {
		wg.Go(func() {
			for k := range int64(5000) {
				g.Open(now, now+1+(k*4+i))
			}
		})
	}
	wg.Wait()
	if ns, times := g.Opened(now + 1e6); ns != 20000 || times != 1 {
		t.Errorf("open for %d in %d openings", ns, times)
	}
}

// TestInKernel: the gates are in the map's memory.
func TestInKernel(t *testing.T) {
	testenv.NeedRoot(t)
	s, err := NewSet(3, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := clock.Now()
	s.Gate(2).Open(now, now+7)
	var w [8]uint64
	if err := s.Map().Lookup(uint32(2), &w); err != nil {
		t.Fatal(err)
	}
	if want := uint64(now + 7 - clock.Offset()); w[0] != want || w[2] != 7 || w[3] != 1 {
		t.Errorf("the map has %v, want until %d", w, want)
	}
}

// TestGatesOutliveTheirSet: a gate can be read after Close, and the memory is
// unmapped with the last reference.
func TestGatesOutliveTheirSet(t *testing.T) {
	testenv.NeedRoot(t)
	others := -1 // what tests before have left is collected first
	testenv.Until(t, "the mappings of other gates stay", func() bool {
		before := others
		others = collected(t)
		return others == before
	})
	s, err := NewSet(2, true)
	if err != nil {
		t.Fatal(err)
	}
	g := s.Gate(1)
	g.Open(clock.Now(), clock.Now()+1e9)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := collected(t); n < others+1 {
		t.Errorf("%d mappings of a gate that is held", n-others)
	}
	if _, times := g.Opened(clock.Now()); times != 1 {
		t.Errorf("opened %d times", times)
	}
	testenv.Until(t, "no mapping is left of gates without references", func() bool { return collected(t) <= others })
}

// collected returns how many eBPF maps this process has mapped after a garbage
// collection. Cleanups run on a goroutine of their own, and may be late.
func collected(t *testing.T) int {
	t.Helper()
	runtime.GC()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "anon_inode:bpf-map")
}
