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
	// test is an elementary one. It passes if something is surely so.
	test struct {
		columns []int // that it reads
		late    bool  // at the return only
		fails   bool  // the engine's evaluation may fail
		// nulls are the bits of the word absent that say that something it reads is
		// NULL: then it does not pass.
		nulls  uint64
		absent int16
		// code is nil if the kernel cannot decide.
		code code
	}
	// code writes a test: it jumps to target if the test passes (if want is
	// set; else if it does not), falls through otherwise, and jumps to unsure
	// where it cannot tell.
	code func(w *writer, want bool, target, unsure label)
)

func (verdict) formula()   {}
func (*junction) formula() {}
func (*test) formula()     {}

// join makes a junction without verdicts: one that decides is all there is,
// the other changes nothing.
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

// exists reports whether f has a test for which is holds.
func exists(f formula, is func(*test) bool) bool {
	found := false
	each(f, func(t *test) { found = found || is(t) })
	return found
}

func mayFail(t *test) bool   { return t.fails }
func undecided(t *test) bool { return t.code == nil }

// relaxation takes for passed what is not known at one point of a call. It goes
// through the conditions from left to right.
type relaxation struct {
	atEntry bool
	// held is set behind a test that may fail and has not been made: what
	// follows must not exclude an event before it was.
	held bool
}

// apply returns what can be tested of f; whole says that it is all of f.
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
		// A test may be known and yet go with one that is not.
		r.held = r.held || !whole && exists(f, mayFail)
		return join(f.and, list...), whole
	}
	return f, true
}
