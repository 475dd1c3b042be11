package operators

import (
	"testing"

	"endoscope/planner/plan"
)

// After n rows the source is asked to stop; what it still sends is dropped.
func TestLimit(t *testing.T) {
	got := play(t, &plan.Limit{N: 3, Input: relation("x:bigint")}, Options{}, `
		1
		2
		wm 2
		3
		4
		wm 4
		5
		close`)
	expect(t, got, `
		1
		2
		wm 2
		3
		drain 0
		wm 4
		close`)
}

func TestLimitZero(t *testing.T) {
	got := play(t, &plan.Limit{N: 0, Input: relation("x:bigint")}, Options{}, `
		wm 1
		1
		close`)
	expect(t, got, `
		wm 1
		drain 0
		close`)
}

// Per result it never ends the query, and begins again at each Flush.
func TestLimitPerFlush(t *testing.T) {
	got := play(t, &plan.Limit{N: 2, PerFlush: true, Input: relation("x:bigint")}, Options{}, `
		1
		2
		3
		flush
		4
		--
		5
		6
		flush
		7
		close`)
	expect(t, got, `
		1
		2
		flush
		4
		5
		flush
		7
		close`)
}
