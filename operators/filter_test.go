package operators

import (
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func positive(in plan.Node) plan.Node {
	return &plan.Filter{Input: in, Cond: call(types.Boolean, ">", column(in, "x"), literal(types.Int(0)))}
}

// A row passes where the condition is true, not where it is NULL. Signals keep
// their place between the rows.
func TestFilter(t *testing.T) {
	got := play(t, positive(relation("t:timestamp x:bigint s:varchar")), Options{}, `
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
	expect(t, got, `
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
	got := play(t, &plan.Limit{N: 1, Input: positive(relation("x:bigint"))}, Options{}, `
		-1
		--
		1
		--
		-1
		close`)
	expect(t, got, `
		1
		drain 0
		close`)
}
