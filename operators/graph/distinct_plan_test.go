package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
)

// NULLs are equal to each other and to nothing else; -0 is 0, NaN is NaN; a
// list is compared by its elements.
func TestDistinct(t *testing.T) {
	got := play.Run(t, &plan.Distinct{Input: testplan.Relation("x:bigint f:double s:varchar l:list")}, operators.Options{}, `
		1 0 a p,q
		1 -0 a p,q
		1 NaN a p,q
		1 NaN a p,q
		0 0 a p,q
		null 0 a p,q
		--
		null -0 a p,q
		1 0 '' p,q
		1 0 null p,q
		1 0 null p
		wm 5
		1 0 a p,q
		1 0 null null
		1 0 null null
		close`)
	testplan.Expect(t, got, `
		1 0 a p,q
		1 NaN a p,q
		0 0 a p,q
		null 0 a p,q
		1 0 '' p,q
		1 0 null p,q
		1 0 null p
		wm 5
		1 0 null null
		close`)
}

func TestDistinctPerFlush(t *testing.T) {
	for _, per := range []bool{false, true} {
		again := ""
		if per {
			again = "1\n"
		}
		got := play.Run(t, &plan.Distinct{Input: testplan.Relation("x:bigint"), PerFlush: per}, operators.Options{}, `
			1
			1
			2
			flush
			1
			3
			close`)
		testplan.Expect(t, got, "1\n2\nflush\n"+again+"3\nclose")
	}
}

func TestDistinctMemoryLimit(t *testing.T) {
	var script strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&script, "%d\n", i)
	}
	got := play.Run(t, &plan.Distinct{Input: testplan.Relation("x:bigint")}, operators.Options{MemoryLimit: 10_000}, script.String()+"close")
	testplan.Expect(t, got, `error: DISTINCT holds more than 10000 bytes of rows (hint: select fewer columns, or put a window into FROM)`)
}
