package graph_test

import (
	"testing"

	"endoscope/operators"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
)

// A row passes where the condition is true, not where it is NULL. Signals keep
// their place between the rows.
func TestFilter(t *testing.T) {
	got := play.Run(t, testplan.Positive(testplan.Relation("t:timestamp x:bigint s:varchar")), operators.Options{}, `
		1 5 a
		2 -5 b
		3 null c
		4 7 null
		wm 4
		5 -1 d
		gap full 3
		tick 9
		preview 9
		barrier 2
		flush
		6 1 a
		close`)
	testplan.Expect(t, got, `
		1 5 a
		4 7 null
		wm 4
		gap full 3
		tick 9
		preview 9
		barrier 2
		flush
		6 1 a
		close`)
}

// What a consumer answers goes through a filter, also for batches of which it
// keeps nothing.
func TestFilterPassesDrain(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 1, Input: testplan.Positive(testplan.Relation("x:bigint"))}, operators.Options{}, `
		-1
		--
		1
		--
		-1
		close`)
	testplan.Expect(t, got, `
		1
		drain 0
		close`)
}
