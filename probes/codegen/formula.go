package codegen

// formula is a condition in negation normal form.
type formula interface{ formula() }

type (
	// verdict is a formula without tests.
	verdict bool
	// junction is an AND or an OR of at least two formulas, none a verdict.
	junction struct {
		and  bool
		list []formula
	}
	// test is an elementary test. It passes if something certainly holds.
	test struct {
		columns []int // that it reads
		late    bool  // possible at the return only
		fails   bool  // the engine's evaluation may fail
		// nulls are the bits of the word absent for the values it reads: if one
		// is NULL, the test does not pass.
		nulls  uint64
		absent int16
		// code is nil if the kernel cannot decide the test.
		code code
	}
	// code writes a test: it jumps to target if the test passes (if want is
	// set; else if it fails), falls through otherwise, and jumps to unsure
	// where it cannot decide.
	code func(w *writer, want bool, target, unsure label)
)

func (verdict) formula()   {}
func (*junction) formula() {}
func (*test) formula()     {}

// join returns a junction without verdicts: a deciding verdict is the result, a
// neutral one is dropped.
func join(and bool, list ...formula) formula {
	j := &junction{and: and}
	for _, f := range list {
		switch f := f.(type) {
		case verdict:
			if bool(f) != and {
				return f
			}
		case *junction:
			if f.and == and {
				j.list = append(j.list, f.list...)
				continue
			}
			j.list = append(j.list, f)
		default:
			j.list = append(j.list, f)
		}
	}
	switch len(j.list) {
	case 0:
		return verdict(and)
	case 1:
		return j.list[0]
	}
	return j
}

// each visits the tests of f from left to right.
func each(f formula, visit func(*test)) {
	switch f := f.(type) {
	case *junction:
		for _, g := range f.list {
			each(g, visit)
		}
	case *test:
		visit(f)
	}
}

// exists reports whether f has a test that satisfies is.
func exists(f formula, is func(*test) bool) bool {
	found := false
	each(f, func(t *test) { found = found || is(t) })
	return found
}

func mayFail(t *test) bool   { return t.fails }
func undecided(t *test) bool { return t.code == nil }

// relaxation replaces tests that are unknown at one point of a call by true. It
// visits the conditions from left to right.
type relaxation struct {
	atEntry bool
	// held is set after a skipped test that may fail: later tests must not
	// exclude an event before it.
	held bool
}

// apply returns the part of f that can be tested; whole reports that it is all
// of f.
func (r *relaxation) apply(f formula) (weaker formula, whole bool) {
	switch f := f.(type) {
	case *test:
		if r.held || f.code == nil || f.late && r.atEntry {
			r.held = r.held || f.fails
			return verdict(true), false
		}
		return f, true
	case *junction:
		list := make([]formula, len(f.list))
		whole = true
		for i, g := range f.list {
			var all bool
			list[i], all = r.apply(g)
			whole = whole && all
		}
		// A test may be known and yet be dropped together with an unknown one.
		r.held = r.held || !whole && exists(f, mayFail)
		return join(f.and, list...), whole
	}
	return f, true
}
