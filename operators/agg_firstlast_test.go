package operators

import "testing"

// By event time; of equal times the values decide. NULLs do not count. Every layout
// of values.
func TestFirstLast(t *testing.T) {
	in := relation("t:bigint i:bigint f:double b:boolean s:varchar l:list")
	root := groupBy(in, "", "first(i); last(i); first(f); last(f); first(b); last(b); first(s); last(s); first(l); last(l)")
	expect(t, play(t, root, Options{}, `
		5 1 1.5 true a x,y
		3 2 2.5 false b z
		9 3 3.5 false c u
		--
		3 4 4.5 true d v
		9 5 5.5 true e w
		1 null null null null null
		10 null null null null null
		close
	`), `
		2 5 2.5 5.5 false true b e v w
		flush
		close
	`)
}

func TestFirstLastWithoutTime(t *testing.T) {
	in := relation("x:bigint")
	expect(t, play(t, groupBy(in, "", "first(x); last(x)"), Options{}, "3\n1\n--\n2\nclose"), `
		3 2
		flush
		close
	`)
}
