package codegen

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"endoscope/operators/expr/exprtest"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
)

// Where a condition is tested, and what is left to the engine. A program is
// described by the columns that it reads; "facts" are in a cookie.
func TestWhereConditionsAreTested(t *testing.T) {
	num := func(i int64) plan.Expr { return lit(types.Int(i)) }
	dur := func(i int64) plan.Expr { return lit(types.Dur(i)) }
	text := func(s string) plan.Expr { return lit(types.Str(s)) }
	add := func(l, r plan.Expr) plan.Expr { return call(types.Bigint, "+", l, r) }
	arg, end, long := cond("=", column(colArg0), num(1)), cond("=", column(colProcess), text("a")), cond(">", column(colDuration), dur(5))
	other := cond("=", column(colArg1), num(2))
	sum := cond(">", add(column(colArg0), num(1)), num(7))
	lateSum := cond(">", call(types.Duration, "+", column(colDuration), dur(1)), dur(7))
	exe := cond("=", column(colExe), text("x"))
	function := cond("like", column(colFunction), text("a%"))
	size := cond(">", call(types.Bigint, "abs", column(colArg1)), num(2))
	root := cond(">", call(types.Double, "sqrt", &plan.Cast{X: column(colArg1), T: types.Double}), lit(types.Float(2)))
	for _, c := range []struct {
		name                  string
		cond                  plan.Expr
		entry, exit, residual string
	}{
		{"known at the entry", arg, "arg0", "", ""},
		{"known at the return", long, "", "duration", ""},
		{"one of each", cond("and", long, arg), "arg0", "duration", ""},
		{"name at the return", cond("and", end, arg), "arg0", "process", ""},
		{"either excludes nothing at the entry", cond("or", arg, long), "", "arg0 duration", ""},
		{"each alternative has something for the entry", cond("or", cond("and", arg, long), cond("and", other, end)), "arg0 arg1", "arg0 duration arg1 process", ""},
		{"not", cond("not", cond("or", arg, long)), "arg0", "arg0 duration", ""},
		{"function", cond("or", function, long), "", "facts duration", ""},
		{"function alone", function, "facts", "", ""},
		{"not in the kernel", exe, "", "", exe.String()},
		{"partly in the kernel", cond("and", exe, arg), "arg0", "", exe.String()},
		{"an alternative not in the kernel", cond("or", exe, arg), "", "", cond("or", exe, arg).String()},
		{"necessary in the kernel, decided by the engine", cond("or", cond("and", arg, exe), cond("and", other, exe)), "arg0 arg1", "arg0 arg1", cond("or", cond("and", arg, exe), cond("and", other, exe)).String()},
		{"may overflow", sum, "arg0", "arg0", sum.String()},
		{"behind what may overflow", cond("and", sum, other), "arg0 arg1", "arg0", cond("and", sum, other).String()},
		{"before what may overflow", cond("and", other, sum), "arg1 arg0", "arg0", sum.String()},
		{"behind what may overflow later", cond("and", lateSum, other), "", "duration arg1", cond("and", lateSum, other).String()},
		{"behind what the engine may fail at", cond("and", size, other), "", "", cond("and", size, other).String()},
		{"behind what only the engine can decide, but never fails at", cond("and", root, other), "arg1", "", root.String()},
		{"never", cond("and", arg, lit(types.NullOf(types.Boolean))), "refuses all", "", ""},
		{"a name too long", cond("=", column(colThread), text("longer than sixteen")), "refuses all", "", ""},
		{"an enum's name", cond("=", column(colKind), text("ab")), "offset 96 args.kind", "", ""},
		{"how names of an enum begin", cond("like", column(colKind), text("w%")), "offset 96 args.kind", "", ""},
		{"how names begin that may be numbers", cond("like", column(colKind), text("1%")), "", "", cond("like", column(colKind), text("1%")).String()},
		{"any name", cond("like", column(colThread), text("%%")), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &functions{names: []string{"a"}, classes: []string{""}, facts: make([]uint64, 1)}
			p := Compile(c.cond, f.layout())
			residual := ""
			if p.Residual != nil {
				residual = p.Residual.String()
			}
			if diff := cmp.Diff([]string{c.entry, c.exit, c.residual}, []string{looksAt(p.Entry), looksAt(p.Return), residual}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// looksAt lists the columns that a program loads, in order.
func looksAt(body asm.Instructions) string {
	if len(body) == 2 {
		return "refuses all"
	}
	var names []string
	for _, i := range body {
		if !i.OpCode.Class().IsLoad() || i.Src != argument || i.OpCode.Mode() != asm.MemMode {
			continue
		}
		name := fmt.Sprint("offset ", i.Offset)
		if i.Offset == 0 {
			name = "facts"
		}
		for _, c := range columns {
			if c.at.Kind != Function && c.at.Kind != Unknown && c.at.Offset == i.Offset {
				name = c.name
			}
		}
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// A condition whose program would be too long is left to the engine.
func TestTooLong(t *testing.T) {
	in := func(n int, offset int64) *plan.In {
		e := &plan.In{X: column(colArg0)}
		for i := range n {
			e.List = append(e.List, plan.Const{V: types.Int(offset + 3*int64(i))})
		}
		return e
	}
	f := &functions{}
	if p := Compile(in(2000, 1), f.layout()); p.Entry == nil || p.Residual != nil {
		t.Errorf("2000 small numbers: %d instructions, %v is left", len(p.Entry), p.Residual)
	}
	e := in(10_000, 1<<40)
	if p := Compile(e, f.layout()); p.Entry != nil || p.Return != nil || p.Residual != plan.Expr(e) || len(p.Reads) != 0 {
		t.Errorf("10,000 large numbers: %d instructions", len(p.Entry))
	}
}

// A long list is searched by bisection: for members, their neighbours, the
// ends.
func TestLongLists(t *testing.T) {
	testenv.NeedRoot(t)
	r := newRunner(t)
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64(), 1, 300).Draw(t, "list")
		want := rapid.Bool().Draw(t, "in")
		in := &plan.In{X: column(colArg0)}
		has := map[int64]bool{}
		for _, v := range list {
			in.List = append(in.List, plan.Const{V: types.Int(v)})
			has[v] = true
		}
		e := plan.Expr(in)
		if !want {
			e = cond("not", e)
		}
		p := Compile(e, (&functions{}).layout())
		entry := r.load(t, p.Entry)
		defer entry.Close()
		for range 20 {
			v := draw(t, list, "of") + rapid.Int64Range(-1, 1).Draw(t, "plus")
			m := moment{}
			putNumber(m.memory[columns[colArg0].at.Offset:], v)
			if got := r.passes(t, entry, m.memory[:]); got != (has[v] == want) {
				t.Fatalf("%d in %v: %v, want %v", v, list, got, has[v] == want)
			}
		}
	})
}

// Arithmetic has the engine's results, to the last bit and at both ends of the
// range.
func TestArithmetic(t *testing.T) {
	testenv.NeedRoot(t)
	r := newRunner(t)
	number := func(t *rapid.T, what string) int64 {
		switch rapid.IntRange(0, 2).Draw(t, "range") {
		case 0:
			return draw(t, numbers, what)
		case 1:
			return rapid.Int64Range(-50, 50).Draw(t, what)
		}
		return rapid.Int64().Draw(t, what)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := moments(t, &functions{names: []string{""}, classes: []string{""}, facts: make([]uint64, 1)})
		x, y := number(t, "x"), number(t, "y")
		if rapid.IntRange(0, 9).Draw(t, "the one of all") == 0 {
			x, y = math.MinInt64, -1
		}
		putNumber(m.memory[columns[colArg0].at.Offset:], x)
		putNumber(m.memory[columns[colArg1].at.Offset:], y)
		m.row[colArg0], m.row[colArg1] = types.Int(x), types.Int(y)
		for _, op := range []string{"+", "-", "*", "/", "%"} {
			for _, args := range [][]plan.Expr{
				{column(colArg0), column(colArg1)},
				{column(colArg0), lit(types.Int(y))},
				{lit(types.Int(x)), column(colArg1)},
			} {
				sum := call(types.Bigint, op, args...)
				result, err := exprtest.EvalRow(sum, m.row)
				if err != nil || result.IsNull {
					result = types.Int(0)
				}
				e := cond("=", sum, lit(types.Int(result.I)))
				p := Compile(e, (&functions{}).layout())
				entry, exit := r.load(t, p.Entry), r.load(t, p.Return)
				check(t, r, e, p, entry, exit, m)
				entry.Close()
				exit.Close()
			}
		}
	})
}
