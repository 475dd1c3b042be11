package graph_test

import (
	"testing"

	"endoscope/operators"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
)

// After n rows the source is asked to stop; what it still sends is dropped.
func TestLimit(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 3, Input: testplan.Relation("x:bigint")}, operators.Options{}, `
		1
		2
		wm 2
		3
		4
		wm 4
		5
		close`)
	testplan.Expect(t, got, `
		1
		2
		wm 2
		3
		drain 0
		wm 4
		close`)
}

// Rows before the first are dropped, within a batch and across batches; they do not count.
func TestLimitSkips(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 2, Skip: 2, Input: testplan.Relation("x:bigint")}, operators.Options{}, `
		1
		--
		2
		3
		--
		wm 3
		4
		5
		close`)
	testplan.Expect(t, got, `
		3
		wm 3
		4
		drain 0
		close`)
}

// Each result begins with the rows that are skipped; a result may have none left.
func TestLimitSkipsPerFlush(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 1, Skip: 1, PerFlush: true, Input: testplan.Relation("x:bigint")}, operators.Options{}, `
		1
		2
		3
		flush
		4
		flush
		5
		6
		close`)
	testplan.Expect(t, got, `
		2
		flush
		flush
		6
		close`)
}

func TestLimitZero(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 0, Input: testplan.Relation("x:bigint")}, operators.Options{}, `
		wm 1
		1
		close`)
	testplan.Expect(t, got, `
		wm 1
		drain 0
		close`)
}

// Per result it never ends the query, and begins again at each Flush.
func TestLimitPerFlush(t *testing.T) {
	got := play.Run(t, &plan.Limit{N: 2, PerFlush: true, Input: testplan.Relation("x:bigint")}, operators.Options{}, `
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
	testplan.Expect(t, got, `
		1
		2
		flush
		4
		5
		flush
		7
		close`)
}
