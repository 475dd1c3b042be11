package placement

import (
	"math"
	"testing"
	"time"
)

// A query that becomes slower by a move to its client moves back, and stays
// until the work at the server has become more expensive.
func TestQuerySlowedByAMoveGoesBack(t *testing.T) {
	ds := []division{atBase, atLower, atStage}
	for _, c := range []struct {
		name          string
		before, after float64 // rows per second
		back          bool
	}{
		{"slower", 4e6, 3.2e6, true},
		{"as fast, but for noise", 4e6, 3.9e6, false},
		{"faster", 2e6, 3.2e6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p moveMonitor
			rows := uint64(0)
			second := func(rate float64) {
				rows += uint64(rate)
				p.observe(rows, time.Second)
			}
			second(c.before)
			p.watch(atStage)
			second(8e6) // while the queues to the client fill
			if _, ok := p.madeSlower(atBase); ok {
				t.Error("judged too early")
			}
			second(c.after)
			if back, ok := p.madeSlower(atBase); ok != c.back || back != atStage {
				t.Errorf("back %t to %s, want %t", ok, back, c.back)
			}
			second(1)
			if _, ok := p.madeSlower(atBase); ok {
				t.Error("judged twice")
			}
		})
	}

	var p moveMonitor
	left := func(at division, here float64) (out int) {
		costs := []float64{1, 2, 3}
		p.leaveOut(ds, at, costs, here)
		for _, c := range costs {
			if math.IsInf(c, 1) {
				out++
			}
		}
		return out
	}
	if n := left(atStage, 100); n != 0 {
		t.Errorf("%d divisions are left out before any was tried", n)
	}
	p.refuse(atBase, 100)
	if n := left(atStage, 110); n != 1 {
		t.Errorf("%d divisions are left out, want the one that was slower", n)
	}
	if n := left(atStage, 130); n != 0 {
		t.Errorf("%d are left out though the work here has become more expensive", n)
	}
	if n := left(atStage, 100); n != 0 {
		t.Errorf("%d are left out for what was long ago", n)
	}
}
