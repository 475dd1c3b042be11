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

// paper is section 5.3's example, with its costs: a call costs 0.15 ms, a sample of the CPU
// 0.4 ms (section 7.3); fdot is Σ f'ᵢ.
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

// TestFigures5And6 checks that many functions with frequent calls favour watching the CPU
// first, and a few with rare long calls watching those first.
func TestFigures5And6(t *testing.T) {
	if in := paper(1e5, 0.3, 0.2); Of(in, plan3) >= Of(in, plan2) {
		t.Error("many calls, and the CPU should not be first")
	}
	if in := paper(0.2, 0.05, 0.5); Of(in, plan2) >= Of(in, plan3) {
		t.Error("few calls, and the functions should not be first")
	}
}

// TestClosedGateCosts checks that a gate that is a flag still costs its trap.
func TestClosedGateCosts(t *testing.T) {
	in := []Input{{Rate: 1e6, Open: 850, Shut: 480, Needed: 0.25}, {Rate: 10, Open: 4000, Needed: 1}}
	if got, want := Of(in, plan3), 1e6*(0.25*850+0.75*480)+10*4000; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestShutInputCostsDetachAndAttach checks that a shut input that can be detached costs
// hardly more than detaching and attaching, and that a sleeping input must be woken.
func TestShutInputCostsDetachAndAttach(t *testing.T) {
	in := []Input{{Rate: 1e5, Open: 850, Shut: 480, Needed: 0.1, Openings: 0.5, Flip: 10e6}, {Rate: 100, Open: 80e3, Needed: 0.2, Openings: 3, Wake: 5e6}}
	if got, want := Of(in, plan3), 1e5*0.1*850+0.5*1.25*10e6+100*80e3; got != want {
		t.Errorf("shut for long: %v, want %v", got, want)
	}
	in[functions].Openings = 20 // too short to detach
	if got, want := Of(in, plan3), 1e5*(0.1*850+0.9*480)+100*80e3; got != want {
		t.Errorf("shut for short: %v, want %v", got, want)
	}
	if got, want := Of(in, plan2), 1e5*850+100*0.2*80e3+3*5e6; got != want {
		t.Errorf("a sampler that sleeps: %v, want %v", got, want)
	}
}

// TestGateIsOpenNoLongerThanItsOpeners checks that a gate is open no longer than its
// openers' gates.
func TestGateIsOpenNoLongerThanItsOpeners(t *testing.T) {
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

// TestModelFindsTheMeasuredBestPlan checks that the model selects the plan that was
// measured to be the best, with the measurements of a database under load
// (BenchmarkStrategies, BenchmarkChangingLoad).
func TestModelFindsTheMeasuredBestPlan(t *testing.T) {
	for _, c := range []struct {
		name string
		in   [2]Input
		best Strategy
	}{
		{"few functions, the process every 2 ms", [2]Input{
			{Rate: 2655, Open: 780, Shut: 456, Needed: 0.057, Openings: 1.3, Flip: 1e6},
			{Rate: 500, Open: 82_290, Shut: 100, Needed: 0.177, Openings: 2, Wake: 60_000},
		}, plan2},
		{"many functions, the process every 2 ms", [2]Input{
			{Rate: 75_000, Open: 980, Shut: 456, Needed: 0.064, Openings: 1.3, Flip: 1e6},
			{Rate: 500, Open: 82_464, Shut: 100, Needed: 0.322, Openings: 2, Wake: 60_000},
		}, plan3},
		{"500 threads every 10 ms", [2]Input{
			{Rate: 32_849, Open: 1_000, Shut: 456, Needed: 0.014, Openings: 0.24, Flip: 1.1e6},
			{Rate: 100, Open: 1.59e6, Shut: 500, Needed: 0.258, Openings: 4.34, Wake: 30_000},
		}, plan2},
		{"the same, and calls without end", [2]Input{
			{Rate: 205_600, Open: 1_203, Shut: 949, Needed: 0.011, Openings: 0.23, Flip: 1.04e6},
			{Rate: 100, Open: 2.58e6, Shut: 500, Needed: 0.896, Openings: 2.85, Wake: 30_000},
		}, plan3},
	} {
		for _, s := range []Strategy{plan1, plan2, plan3} {
			if Of(c.in[:], s) < Of(c.in[:], c.best) {
				t.Errorf("%s: %v is taken to be better than %v", c.name, s, c.best)
			}
		}
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

// TestMeanOfPieces checks that the result does not depend on how time is divided.
func TestMeanOfPieces(t *testing.T) {
	var whole, pieces Mean
	whole.Observe(5, 10*time.Second)
	whole.Observe(6, 4*time.Second)
	for range 10 {
		pieces.Observe(5, time.Second)
	}
	for range 4 {
		pieces.Observe(6, time.Second)
	}
	if d := math.Abs(whole.Value() - pieces.Value()); d > 1e-9 {
		t.Errorf("%v and %v", whole.Value(), pieces.Value())
	}
}

// TestMeanOfChange checks that several observations in a row out of range, on one side, are
// a change, and that the new mean is theirs.
func TestMeanOfChange(t *testing.T) {
	var m Mean
	see := func(want bool, xs ...float64) {
		t.Helper()
		for i, x := range xs {
			if got := m.Observe(x, time.Second); got != (want && i == len(xs)-1) {
				t.Fatalf("after %v: changed is %v", xs[:i+1], got)
			}
		}
	}
	see(false, 100, 105, 95, 110, 90)
	see(false, 300)      // once is nothing
	see(false, 100, 5)   // nor are two with others between them
	see(false, 100, 100) // which widen the range
	see(false, 250, 250)
	see(true, 900, 900)
	if math.Abs(m.Value()-900) > 1e-6 {
		t.Errorf("the mean is %v, of what came before the change", m.Value())
	}
	// A quantity that is usually zero has not changed when it is zero.
	m = Mean{}
	see(false, 0, 0, 0.2, 0, 0, 0.3, 0, 0, 0.2, 0, 0, 0, 0.25, 0, 0)
}

// TestMeanOfCounts checks that a large change of a count is detected at once, that chance
// and bursts are not changes, and that a count during the change is dropped.
func TestMeanOfCounts(t *testing.T) {
	var m Mean
	see := func(want bool, ns ...float64) {
		t.Helper()
		for i, n := range ns {
			if got := m.Count(n, time.Second); got != (want && i == len(ns)-1) {
				t.Fatalf("after %v: changed is %v", ns[:i+1], got)
			}
		}
	}
	see(false, 1000, 9000) // too little was seen
	m = Mean{}
	see(false, 3000, 3100, 2900)
	see(false, 9000, 3000, 3000) // three times as many may be a moment's
	m = Mean{}
	see(false, 3000, 3100, 2900)
	see(true, 15000) // of which a fourth of a second had 50,000
	see(false, 50000, 52000, 48000)
	if v := m.Value(); v < 48000 {
		t.Errorf("the mean is %v, of what was counted while it changed", v)
	}
	see(true, 9000) // and down
	see(false, 3000, 3000, 3000)
	if v := m.Value(); v != 3000 {
		t.Errorf("the mean is %v", v)
	}
	// Small counts are within chance, and a burst among bursts is nothing new.
	m = Mean{}
	see(false, 0, 0, 0, 0, 20, 0, 0, 0, 12)
	m = Mean{}
	see(false, 100, 4000, 100, 100, 4200, 100, 100, 3900, 100, 100)
	// A short time shows little.
	m = Mean{}
	see(false, 3000, 3100, 2900)
	if m.Count(1000, 20*time.Millisecond) {
		t.Error("20 ms are a change")
	}
}

// TestMeanInDoubt checks that a doubted value remains until the next observation, which
// replaces it.
func TestMeanInDoubt(t *testing.T) {
	var m Mean
	if m.Doubt(); m.Doubted() {
		t.Error("what was never seen is doubted")
	}
	m.Observe(4, 5*time.Second)
	m.Doubt()
	if m.Pass(time.Second); !m.Doubted() || m.Value() != 4 {
		t.Errorf("doubted: %v, %v", m.Doubted(), m.Value())
	}
	if m.Observe(5, time.Second) || m.Doubted() || m.Value() != 5 {
		t.Errorf("seen: %v, %v", m.Doubted(), m.Value())
	}
	m.Doubt()
	if !m.Observe(8, time.Second) || m.Value() != 8 {
		t.Errorf("seen to be another: %v", m.Value())
	}
}

func known(costs ...float64) (out []Candidate) {
	for _, c := range costs {
		out = append(out, Candidate{Cost: c * 1e6, Known: true})
	}
	return out
}

// chooser steps through evaluations, a second each.
func chooser(t *testing.T) (step func(want int, cs []Candidate)) {
	var c Chooser
	return func(want int, cs []Candidate) {
		t.Helper()
		if got := c.Next(cs, time.Second); got != want {
			t.Fatalf("candidate %d, want %d", got, want)
		}
	}
}

func TestChooser(t *testing.T) {
	step := chooser(t)
	// With everything acquired one evaluation shows what is best.
	step(0, known(10, 9.8, 11))
	step(1, known(10, 4, 9))
	// Later a gain must last.
	step(1, known(10, 4, 3))
	step(1, known(10, 4, 5))
	step(1, known(10, 4, 3))
	step(2, known(10, 4, 3))
	// A small gain is ignored, to avoid oscillation.
	for range 10 {
		step(2, known(10, 2.9, 3))
		step(2, known(10, 3.1, 3))
	}
	// So is a large share of a negligible cost.
	for range 10 {
		step(2, known(1, 0.001, 0.002))
	}
	// An unknown candidate is not chosen, however cheap it looks.
	cheap := known(100, 1, 2)
	cheap[1].Known = false
	for range 5 {
		step(2, cheap)
	}
}

// TestLooksAgain checks that outdated costs are learnt by acquiring everything for one
// evaluation, rarely enough to cost little.
func TestLooksAgain(t *testing.T) {
	step := chooser(t)
	step(1, known(10, 4, 9))
	stale := known(10, 4, 9)
	stale[2].Known = false
	// A look costs 6 more, of which there is a hundredth: after 150 s.
	for range 149 {
		step(1, stale)
	}
	step(0, stale)
	step(1, known(10, 4, 9))
	// It costs that much however short the evaluation before was.
	var c Chooser
	c.Next(known(10, 4, 9), time.Second)
	c.Next(stale, 100*time.Second)
	if c.Next(stale, 10*time.Millisecond) == 0 {
		t.Error("after 100 s it looks again")
	}
	// A changed load allows an earlier look.
	changed := known(10, 4, 9)
	changed[2].Doubted = true
	for range 5 {
		step(1, changed)
	}
	step(0, changed)
	step(2, known(10, 4, 3))
}

// TestFalseAlarms checks that unjustified doubts count less and less, until one is
// justified.
func TestFalseAlarms(t *testing.T) {
	var c Chooser
	before := known(10, 4, 9)
	doubted := known(10, 4, 9)
	doubted[2].Doubted = true
	c.Next(before, time.Second)
	looks := func(d time.Duration) (n int) {
		for range d / time.Second {
			if c.Next(doubted, time.Second) == 0 {
				n++
				if c.Next(before, time.Second) != 1 {
					t.Fatal("the best plan is another")
				}
			}
		}
		return n
	}
	if n := looks(time.Minute); n > 4 {
		t.Errorf("%d looks in the first minute", n) // after 6, 12, 24 s
	}
	looks(10 * time.Minute)
	if n := looks(5 * time.Minute); n > 2 { // 6 of 4 are a hundredth of 150 s
		t.Errorf("%d looks in 5 minutes, after many that showed nothing", n)
	}
	for c.Next(doubted, time.Second) != 0 {
	}
	if c.Next(known(10, 4, 3), time.Second) != 2 {
		t.Fatal("what was true this time was ignored")
	}
	then := known(10, 4, 3)
	then[1].Doubted = true
	n := 1
	for c.Next(then, time.Second) != 0 {
		n++
	}
	if n > 10 { // 7 of 3 are a quarter of 9.3 s
		t.Errorf("after a true one it takes %d s to look", n)
	}
}

// TestTrueAlarm checks that a doubt after which acquiring everything is best does not count
// as unjustified, however long that lasts and whatever is chosen afterwards.
func TestTrueAlarm(t *testing.T) {
	var c Chooser
	before := known(10, 4, 9)
	doubted := known(10, 4, 9)
	doubted[2].Doubted = true
	looks := func() (n int) {
		for n = 1; c.Next(doubted, time.Second) != 0; n++ {
		}
		return n
	}
	c.Next(before, time.Second)
	first := looks()
	unseen := known(10, 4, 9)
	unseen[1].Doubted, unseen[2].Doubted = true, true
	c.Next(unseen, time.Second)
	for range 10 {
		if c.Next(known(3, 4, 9), time.Second) != 0 {
			t.Fatal("everything is not acquired, which is best")
		}
	}
	for c.Next(before, time.Second) != 1 {
	}
	if n := looks(); n != first {
		t.Errorf("after a true alarm it takes %d s to look, and took %d", n, first)
	}
}
