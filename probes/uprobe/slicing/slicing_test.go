package slicing

import (
	"testing"
	"time"

	"endoscope/planner/plan"
)

// TestPack: groups slow the program by little, but for functions that do so alone.
func TestPack(t *testing.T) {
	busy := Load{CPUs: 1, Floor: 0.1}
	fs := []Function{{Price: 500, Rate: 2e-6}, {Price: 500, Rate: 2e-5}, {Price: 500, Rate: 3e-5}, {Price: 500, Rate: 1e-4}, {Price: 500, Rate: 1e-3}}
	groups := Pack(fs, []int{0, 1, 2, 3, 4}, busy, 1e6, 1e9)
	if len(groups) != 4 {
		t.Fatalf("%d groups: %v", len(groups), groups)
	}
	seen := map[int]bool{}
	for _, g := range groups {
		if g.Dilation > MostDilation && len(g.Functions) > 1 || g.Length > longest || g.Length < shortest {
			t.Errorf("%v", g)
		}
		for _, f := range g.Functions {
			seen[f] = true
		}
	}
	if fewer := Pack(fs, []int{0, 1, 2, 3, 4}, busy, 1e6, 1e6); len(fewer) != 2 {
		t.Errorf("where a round may cost little there are %d groups, want one, and the function that is too hot: %v", len(fewer), fewer)
	}
	if len(seen) != len(fs) {
		t.Errorf("%d of %d functions are in groups", len(seen), len(fs))
	}
}

// TestPackLengths: slices whose hits cost little beside attaching them are longer, and so are
// those of a program that is nearly idle, which its probes do not slow.
func TestPackLengths(t *testing.T) {
	length := func(dilation, cpus float64) time.Duration {
		return Pack([]Function{{Price: 1000, Rate: dilation / 1000}}, []int{0}, Load{CPUs: cpus, Floor: 0.1}, Attaching, 1e9)[0].Length
	}
	for _, c := range []struct {
		dilation, cpus float64
		least, most    time.Duration
	}{
		{1e-5, 1, longest, longest},
		{0.02, 1, usual, longest / 2}, // hits cost a quarter of attaching
		{0.3, 1, shortest, usual},
		{0.3, 0.005, 10 * usual, longest},
	} {
		if l := length(c.dilation, c.cpus); l < c.least || l > c.most {
			t.Errorf("a function that slows the program by %g, of %g CPUs, has slices of %v, want %v to %v", c.dilation, c.cpus, l, c.least, c.most)
		}
	}
	if none := (Load{}); none.scale() != leastScale {
		t.Errorf("an idle program without a floor has the scale %g", none.scale())
	}
	if idle, busy := (Load{0.005, 0.1}), (Load{1, 0.1}); !idle.Changed(busy) || busy.Changed(Load{0.2, 0.1}) {
		t.Error("a program that becomes busy needs other groups, one that remains so does not")
	}
}

// TestLedger: what is taken adds up to what was seen, over series and however often it is
// taken; a function whose series has had few slices remains in it.
func TestLedger(t *testing.T) {
	for _, often := range []bool{false, true} {
		var l Ledger
		sums := map[Exposure]Exposure{} // by function, series and replicate
		take := func(progress int64) {
			for _, e := range l.Take(progress, 0) {
				k := Exposure{Function: e.Function, Series: e.Series, Replicate: e.Replicate}
				s := sums[k]
				sums[k] = Exposure{Seen: s.Seen + e.Seen, Whole: s.Whole + e.Whole, Slow: s.Slow + e.Slow, Fast: s.Fast + e.Fast, Censored: s.Censored + e.Censored}
			}
		}
		step := func(progress int64) {
			if often {
				take(progress)
			}
		}
		l.Begin(7, 0, 100)
		step(150)
		if l.Begin(7, 1, 200); l.Series(7) != 0 { // without a slice until now
			t.Errorf("the series of a function without a slice is %d", l.Series(7))
		}
		step(250)
		for k := range plan.Replicates + 1 {
			l.Add([]int{7}, k%plan.Replicates, &Slice{Progress: 10, Spent: 1, Censored: 1})
		}
		step(300)
		if !l.Sliced(7) || l.Sliced(8) {
			t.Error("another function has had slices")
		}
		l.Begin(7, 2, 1100)
		l.Add([]int{7}, 3, &Slice{Progress: 10})
		take(2100)
		if l.Sliced(7) {
			t.Error("one slice is enough")
		}
		if l.End(7, 2200); l.Functions() != 0 {
			t.Error("a function does not leave slices")
		}
		take(2400)
		s := sums[Exposure{Function: 7, Replicate: plan.ExactReplicate}]
		if s.Whole != 1000 || s.Censored != 0 || s.Slow <= 0 || s.Fast <= 0 {
			t.Errorf("the first series has %v", s)
		}
		if first, other := sums[Exposure{Function: 7, Replicate: 0}], sums[Exposure{Function: 7, Replicate: 5}]; first.Seen != 18 || other.Seen != 9 || first.Censored != 2 || other.Censored != 1 {
			t.Errorf("replicates have %v and %v", first, other)
		}
		if s := sums[Exposure{Function: 7, Series: 2, Replicate: plan.ExactReplicate}]; s.Whole != 1100 || s.Slow != 0 || s.Fast != 0 {
			t.Errorf("the last series has %v", s)
		}
	}
}
