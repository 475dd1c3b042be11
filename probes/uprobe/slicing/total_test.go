package slicing

import (
	"strings"
	"testing"
	"time"
)

// TestTotal: the footer says what was spent on what, and what exceeded the overhead.
func TestTotal(t *testing.T) {
	base := Total{Share: 0.01, Used: 1e9, Took: 10 * time.Second, Probes: 2e6, Attaching: 4e6, Upkeep: 3e6, Always: 8, Attached: 9, Before: 2 * time.Second}
	said := func(change func(*Total)) string {
		x := base
		change(&x)
		return strings.Join(x.Remarks(), "\n")
	}
	for _, c := range []struct {
		change     func(*Total)
		has, lacks string
	}{
		{func(*Total) {}, "overhead 0.9 % of the program's CPU time, of 1 % allowed (0.2 % by probes, 0.4 % by attaching, 0 % for slices, 0.3 % by the engine's upkeep)", "exceeded"},
		{func(x *Total) { x.Attaching = 12e6 }, "exceeded what is allowed by 7 ms in 10 s, mostly by attaching, once 12 ms for 9 functions; 1 % of this program's CPU time is 1 ms each second", "CPU time before\nthe overhead exceeded what is allowed by 0"},
		{func(x *Total) { x.Slicing, x.Slices = 20e6, 10 }, "mostly by attaching and detaching for slices, 2 ms for each", "CPU time before\nthe overhead exceeded what is allowed by 0"},
		{func(x *Total) { x.Upkeep = 30e6 }, "mostly by the engine's upkeep, 3 ms each second", "CPU time before\nthe overhead exceeded what is allowed by 0"},
		{func(x *Total) { x.Probes = 30e6 }, "mostly by the calls of probed functions", "CPU time before\nthe overhead exceeded what is allowed by 0"},
	} {
		if text := said(c.change); !strings.Contains(text, c.has) || strings.Contains(text, c.lacks) {
			t.Errorf("%q, want %q", text, c.has)
		}
	}
}
