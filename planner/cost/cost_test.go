package cost

import (
	"math"
	"testing"
	"time"
)

const (
	functions = iota
	cpu
)

// paper is section 5.3's example, with its prices: a call costs 0.15 ms, a
// sample of the CPU 0.4 ms (section 7.3); fdot is Σ f'ᵢ.
func paper(fdot, long, busy float64) []Input {
	return []Input{
		functions: {Rate: fdot, Open: 0.15e6, Needed: busy},
		cpu:       {Rate: 10, Open: 0.4e6, Needed: long},
	}
}

var (
	plan1 = AllOn(2)
	plan2 = Strategy{functions: None, cpu: functions}
	plan3 = Strategy{functions: cpu, cpu: None}
)

// TestPaperFormulas: the three costs of section 5.3, as printed there.
func TestPaperFormulas(t *testing.T) {
	for _, c := range []struct{ f, long, busy float64 }{
		{1000, 0.1, 0.5}, {1, 0.02, 0.9}, {1e6, 0, 0}, {50, 1, 1},
	} {
		in := paper(c.f, c.long, c.busy)
		const cfun, ccpu, usage = 0.15e6, 0.4e6, 10
		for name, got := range map[string][2]float64{
			"plan 1": {Of(in, plan1), c.f*cfun + usage*ccpu},
			"plan 2": {Of(in, plan2), c.f*cfun + usage*c.long*ccpu},
			"plan 3": {Of(in, plan3), c.f*c.busy*cfun + usage*ccpu},
		} {
			if math.Abs(got[0]-got[1]) > 1e-6*got[1] {
				t.Errorf("%s for %v: %v, want %v", name, c, got[0], got[1])
			}
		}
	}
}

// TestFigures5And6: many functions that are called often favour watching the
// CPU first; few that are seldom called and run for long, watching those first.
func TestFigures5And6(t *testing.T) {
	if in := paper(1e5, 0.3, 0.2); Of(in, plan3) >= Of(in, plan2) {
		t.Error("many calls, and the CPU should not be first")
	}
	if in := paper(0.2, 0.05, 0.5); Of(in, plan2) >= Of(in, plan3) {
		t.Error("few calls, and the functions should not be first")
	}
}

// TestClosedGateCosts: a gate that is a flag still costs its trap.
func TestClosedGateCosts(t *testing.T) {
	in := []Input{{Rate: 1e6, Open: 850, Shut: 480, Needed: 0.25}, {Rate: 10, Open: 4000, Needed: 1}}
	if got, want := Of(in, plan3), 1e6*(0.25*850+0.75*480)+10*4000; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestChain: a gate is open no longer than those through which it is opened.
func TestChain(t *testing.T) {
	in := []Input{{Rate: 1}, {Rate: 1, Needed: 0.5}, {Rate: 100, Open: 10, Needed: 0.2}}
	s := Strategy{None, 0, 1}
	if got := Share(in, s, 1); got != 0.5 {
		t.Errorf("the second is open %v of the time", got)
	}
	if got := Share(in, s, 2); got != 0.2 {
		t.Errorf("the third is open %v of the time", got)
	}
	in[2].Needed = 0.9 // when it was last seen, which was all the time
	if got := Share(in, s, 2); got != 0.5 {
		t.Errorf("the third is open %v of the time", got)
	}
}

func TestDetach(t *testing.T) {
	if Detach(1000, 500, 30e6) {
		t.Error("half a millisecond of traps does not pay for 30 ms")
	}
	if !Detach(60_000, 500, 30e6) {
		t.Error("30 ms of traps pay for 30 ms")
	}
}

func TestMean(t *testing.T) {
	var m Mean
	if m.Value() != 0 || m.Confidence() != 0 {
		t.Error("nothing was seen, yet something is known")
	}
	m.Observe(4, time.Second)
	if m.Value() != 4 {
		t.Errorf("one observation of 4 has the mean %v", m.Value())
	}
	for range 60 {
		m.Observe(10, time.Second)
	}
	if v := m.Value(); v < 9.9 || v > 10 {
		t.Errorf("after a minute of 10: %v", v)
	}
	sure := m.Confidence()
	m.Pass(halfLife)
	if c := m.Confidence(); math.Abs(c-sure/2) > 1e-9 {
		t.Errorf("after a half-life without sight: %v of %v", c, sure)
	}
	m.Pass(30 * time.Second)
	if !m.Known() {
		t.Error("after half a minute without sight nothing is known")
	}
	m.Pass(30 * time.Second)
	if m.Known() {
		t.Error("after a minute without sight all is still known")
	}
	if v := m.Value(); v < 9.9 {
		t.Errorf("what is not seen changes the mean to %v", v)
	}
}

// TestMeanOfPieces: it makes no difference into how many pieces time is cut.
func TestMeanOfPieces(t *testing.T) {
	var whole, pieces Mean
	whole.Observe(1, 10*time.Second)
	whole.Observe(7, 4*time.Second)
	for range 10 {
		pieces.Observe(1, time.Second)
	}
	for range 4 {
		pieces.Observe(7, time.Second)
	}
	if d := math.Abs(whole.Value() - pieces.Value()); d > 1e-9 {
		t.Errorf("%v and %v", whole.Value(), pieces.Value())
	}
}

func known(costs ...float64) (out []Candidate) {
	for _, c := range costs {
		out = append(out, Candidate{Cost: c * 1e6, Known: true})
	}
	return out
}

func TestChooser(t *testing.T) {
	var c Chooser
	step := func(want int, cs []Candidate) {
		t.Helper()
		if got := c.Next(cs); got != want {
			t.Fatalf("candidate %d, want %d", got, want)
		}
	}
	// A gain has to last.
	step(0, known(10, 4, 9))
	step(0, known(10, 4, 9))
	step(0, known(4, 4, 9))
	step(0, known(10, 4, 9))
	step(0, known(10, 4, 9))
	step(1, known(10, 4, 9))
	// A small one is none: no going to and fro.
	for range 10 {
		step(1, known(10, 4, 3.9))
		step(1, known(10, 4, 4.1))
	}
	// Nor is a large share of nearly nothing.
	for range 10 {
		step(1, known(1, 0.002, 0.001))
	}
	// The other one, where that is clear.
	step(1, known(10, 9, 2))
	step(1, known(10, 9, 2))
	step(2, known(10, 9, 2))
	// What is not known any more is learnt again with everything acquired.
	stale := known(10, 9, 2)
	stale[1].Known = false
	step(0, stale)
	step(0, stale)
	// An unknown candidate is not chosen, however cheap it looks.
	cheap := known(10, 1, 11)
	cheap[1].Known = false
	for range 5 {
		step(0, cheap)
	}
}
