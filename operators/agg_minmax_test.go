package operators

import "testing"

// NaN is larger than every number, false less than true, text by bytes.
func TestMinMax(t *testing.T) {
	in := relation("f:double b:boolean s:varchar i:bigint")
	expect(t, play(t, groupBy(in, "", "min(f); max(f); min(b); max(b); min(s); max(s); min(i); max(i)"), Options{}, `
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
	expect(t, play(t, groupBy(in, "", "min(f); max(f)"), Options{}, "NaN true b 1\nclose"), "NaN NaN\nflush\nclose")
}
