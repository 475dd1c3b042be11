package codegen

import (
	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Program is a compiled condition.
type Program struct {
	// Entry and Return are bodies of functions of one argument, the address of
	// the memory that the Layout describes: they return 0 for an event that is
	// certainly not wanted, else 1. Return runs for events that passed Entry.
	// nil: all pass.
	Entry, Return asm.Instructions
	// Residual is the condition to test on the events that passed; nil: none.
	Residual plan.Expr
	// Reads are the columns that the programs read, by index.
	Reads map[int]bool
}

// Compile compiles a condition, a BOOLEAN over the columns of in. What it
// cannot compile becomes residual; it never fails.
func Compile(e plan.Expr, in Layout) Program {
	c := compiler{in: in}
	conds := plan.Conjuncts(e)
	all := make([]formula, len(conds))
	fails := false
	for i, x := range conds {
		all[i] = c.formula(x, true)
		if all[i] == verdict(false) && fails {
			all[i] = &test{} // otherwise no part that can fail would be left
		}
		fails = fails || exists(all[i], mayFail)
	}
	entry, remaining := weaken(all, true)
	exit, _ := weaken(remaining, false)
	p := Program{Residual: residual(conds, all), Reads: map[int]bool{}}
	var err error
	if p.Entry, err = program(entry); err == nil {
		p.Return, err = program(exit)
	}
	if err != nil { // too long
		return Program{Residual: e}
	}
	for _, f := range []formula{entry, exit} {
		each(f, func(t *test) {
			for _, i := range t.columns {
				p.Reads[i] = true
			}
		})
	}
	return p
}

// weaken joins the parts of the conditions that can be tested at one point of a
// call, and returns those that are not settled by that.
func weaken(all []formula, atEntry bool) (f formula, remaining []formula) {
	r := relaxation{atEntry: atEntry}
	list := make([]formula, len(all))
	for i, g := range all {
		var whole bool
		list[i], whole = r.apply(g)
		// A condition that may fail is tested again: events at which it fails
		// pass.
		if !whole || exists(g, mayFail) {
			remaining = append(remaining, g)
		}
	}
	return join(true, list...), remaining
}

// residual joins the conditions that the programs do not settle: those with an
// undecided test, and all from the first on that may fail, since at a failure
// the programs pass the event without testing the rest.
func residual(conds []plan.Expr, all []formula) plan.Expr {
	var rest plan.Expr
	failed := false
	for i, f := range all {
		failed = failed || exists(f, mayFail)
		if failed || exists(f, undecided) {
			rest = plan.And(rest, conds[i])
		}
	}
	return rest
}

type compiler struct{ in Layout }

// formula translates a condition: whether e certainly has the value want.
func (c *compiler) formula(e plan.Expr, want bool) formula {
	if f := c.fact(e, want); f != nil {
		return f
	}
	if f := c.decide(e, want); f != nil {
		return f
	}
	return &test{fails: canFail(e)}
}

// decide is formula for conditions that the kernel decides; nil if it cannot.
func (c *compiler) decide(e plan.Expr, want bool) formula {
	switch e := e.(type) {
	case *plan.Const:
		return verdict(!e.V.IsNull && (e.V.I != 0) == want)
	case *plan.Col:
		return c.truth(e, want)
	case *plan.In:
		return c.list(e, want)
	case *plan.Call:
		switch e.Fn {
		case "not":
			return c.formula(e.Args[0], !want)
		case "and", "or":
			return c.junction(e, want)
		case "is null":
			if col, ok := e.Args[0].(*plan.Col); ok {
				if f := c.isNull(col, want); f != nil {
					return f
				}
			}
		case "=", "<>", "<", "<=", ">", ">=":
			if f := c.equalTruth(e, want); f != nil {
				return f
			}
			op := e.Fn
			if !want {
				op = opposites[op]
			}
			if t := c.compareNumbers(op, e.Args[0], e.Args[1]); t != nil {
				return t
			}
		}
		return c.match(e, want)
	}
	return nil
}

// junction translates AND and OR. Verdicts in it are eliminated; but if that
// eliminated a test that may fail, its failure would be lost, too.
func (c *compiler) junction(e *plan.Call, want bool) formula {
	list := make([]formula, len(e.Args))
	fails := false
	for i, a := range e.Args {
		list[i] = c.formula(a, want)
		fails = fails || exists(list[i], mayFail)
	}
	f := join((e.Fn == "and") == want, list...)
	if fails && !exists(f, mayFail) {
		return &test{fails: true}
	}
	return f
}

// maxNames limits a list of names, which are compared one by one.
const maxNames = 64

// list translates an IN list. With NULL in it, it is never certainly false.
func (c *compiler) list(e *plan.In, want bool) formula {
	var values []types.Value
	for _, k := range e.List {
		if !k.V.IsNull {
			values = append(values, k.V)
		}
	}
	if never := len(values) == 0 || !want && len(values) < len(e.List); never {
		if canFail(e) {
			return nil
		}
		return verdict(false)
	}
	if index, ok := c.column(e.X, Name); ok && len(values) <= maxNames {
		var ps []pattern
		for _, v := range values {
			if p, ok := exactly(v.S); ok {
				ps = append(ps, p)
			}
		}
		return negated(c.named(index, ps), want)
	}
	if index, ok := c.column(e.X, Words); ok && len(values) <= maxNames {
		t := TextTest{}
		for _, v := range values {
			t.Equal = append(t.Equal, v.S)
		}
		return c.text(index, t, want)
	}
	if index, ok := c.column(e.X, Enum); ok {
		var ints []int64
		for _, v := range values {
			ints = append(ints, c.in.Columns[index].named(v.S)...)
		}
		return c.enum(index, ints, want)
	}
	ints := make([]int64, len(values))
	for i, v := range values {
		ints[i] = v.I
	}
	if t := c.oneOf(e.X, ints); t != nil {
		return negated(t, want)
	}
	return nil
}

// match translates tests of names against constants.
func (c *compiler) match(e *plan.Call, want bool) formula {
	if len(e.Args) != 2 {
		return nil
	}
	left, right := e.Args[0], e.Args[1]
	if e.Fn == "=" || e.Fn == "<>" {
		if _, ok := left.(*plan.Const); ok {
			left, right = right, left
		}
	}
	k, isConst := right.(*plan.Const)
	if !isConst {
		return nil
	}
	if index, ok := c.column(left, Words); ok {
		return c.matchText(e.Fn, index, k, want)
	}
	if index, ok := c.column(left, Enum); ok {
		return c.matchEnum(e.Fn, index, k, want)
	}
	index, isName := c.column(left, Name)
	if !isName {
		return nil
	}
	if k.V.IsNull {
		return verdict(false)
	}
	var p pattern
	ok, known := false, true
	switch e.Fn {
	case "=", "<>":
		p, ok = exactly(k.V.S)
		want = want == (e.Fn == "=")
	case "like":
		p, ok, known = likeNames(k.V.S)
	case "starts_with":
		p, ok = beginning(k.V.S, len(k.V.S))
	default:
		known = false
	}
	if !known {
		return nil
	}
	if !ok {
		return verdict(!want)
	}
	return negated(c.named(index, []pattern{p}), want)
}

// negated returns f if want is set, else its negation. f is never NULL.
func negated(f formula, want bool) formula {
	if want {
		return f
	}
	switch f := f.(type) {
	case verdict:
		return !f
	case *test:
		t := *f
		t.code = func(w *writer, want bool, target, unsure label) { f.code(w, !want, target, unsure) }
		return &t
	}
	return nil
}

// fact translates a condition on the function only; nil if it is none.
func (c *compiler) fact(e plan.Expr, want bool) formula {
	found, only := false, true
	plan.Walk(e, func(x plan.Expr) {
		if col, ok := x.(*plan.Col); ok {
			found = true
			only = only && c.in.Columns[col.Index].Kind == Function
		}
	})
	if !found || !only {
		return nil
	}
	if !want {
		e = &plan.Call{Fn: "not", Args: []plan.Expr{e}, T: types.Boolean}
	}
	bit, ok := c.in.Fact(e)
	if !ok {
		return nil
	}
	return &test{code: func(w *writer, want bool, target, _ label) {
		op := asm.JNE
		if !want {
			op = asm.JEq
		}
		w.add(asm.LoadMem(operands[0], argument, c.in.Facts, asm.DWord), asm.RSh.Imm(operands[0], int32(bit)),
			asm.And.Imm(operands[0], 1))
		w.jump(op.Imm(operands[0], 0, ""), target)
	}}
}

// total lists the functions with a value for every argument. Others are assumed
// to fail for some.
var total = map[string]bool{
	"and": true, "or": true, "not": true, "is null": true,
	"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true,
	"like": true, "ilike": true, "starts_with": true, "length": true, "lower": true, "upper": true,
	"to_ns": true, "to_us": true, "to_ms": true, "to_s": true, "to_min": true,
}

// canFail reports whether the evaluation of e may end in an error.
func canFail(e plan.Expr) bool {
	fails := false
	plan.Walk(e, func(x plan.Expr) {
		switch x := x.(type) {
		case *plan.Call:
			double := x.T == types.Double && allDouble(x.Args)
			fails = fails || !total[x.Fn] && !double && !fixedPattern(x)
		case *plan.Cast:
			fails = fails || x.T.Physical() == types.PhysInt && (x.X.Type() == types.Double || x.X.Type().Unsigned() != x.T.Unsigned())
		}
	})
	return fails
}

// allDouble: functions of DOUBLEs return infinity or NULL, never an error.
func allDouble(args []plan.Expr) bool {
	for _, a := range args {
		if a.Type() != types.Double {
			return false
		}
	}
	return true
}

// fixedPattern: a constant regular expression was checked before any event.
func fixedPattern(x *plan.Call) bool {
	if x.Fn != "~" {
		return false
	}
	_, ok := x.Args[1].(*plan.Const)
	return ok
}
