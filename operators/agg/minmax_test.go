package agg_test

import (
	"testing"

	"endoscope/operators"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
)

// NaN is larger than every number, false less than true, text by bytes.
func TestMinMax(t *testing.T) {
	in := testplan.Relation("f:double b:boolean s:varchar i:bigint")
	testplan.Expect(t, play.Run(t, testplan.GroupBy(in, "", "min(f); max(f); min(b); max(b); min(s); max(s); min(i); max(i)"), operators.Options{}, `
		NaN true b -9223372036854775808
		2 true B 0
		-inf false ba 9223372036854775807
		null null null null
		close
	`), `
		-Inf NaN false true B ba -9223372036854775808 9223372036854775807
		flush
		close
	`)
	testplan.Expect(t, play.Run(t, testplan.GroupBy(in, "", "min(f); max(f)"), operators.Options{}, "NaN true b 1\nclose"), "NaN NaN\nflush\nclose")
}
