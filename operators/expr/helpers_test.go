package expr

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Short names for building expressions.
func lit(v types.Value) plan.Expr { return &plan.Const{V: v} }
func num(i int64) plan.Expr       { return lit(types.Int(i)) }
func dbl(f float64) plan.Expr     { return lit(types.Float(f)) }
func str(s string) plan.Expr      { return lit(types.Str(s)) }
func boolean(b bool) plan.Expr    { return lit(types.Bool(b)) }
func raw(s string) types.Value    { return types.Value{Type: types.Bytes, S: s} }
func col(i int, t types.Type) plan.Expr {
	return &plan.Col{Index: i, Name: fmt.Sprintf("c%d", i), T: t}
}
func cast(x plan.Expr, t types.Type) plan.Expr { return &plan.Cast{X: x, T: t} }
func in(x plan.Expr, vs ...types.Value) plan.Expr {
	e := &plan.In{X: x}
	for _, v := range vs {
		e.List = append(e.List, plan.Const{V: v})
	}
	return e
}

// call types a call by plan.Scalars as the resolver does, with exact types.
func call(fn string, args ...plan.Expr) plan.Expr {
	s := plan.FindScalar(fn)
	if s == nil {
		panic("no function " + fn)
	}
	for _, sig := range s.Sigs {
		if t, ok := resultType(sig, args); ok {
			return &plan.Call{Fn: fn, Args: args, T: t}
		}
	}
	panic(fmt.Sprintf("no signature of %s for %v", fn, args))
}

func resultType(sig plan.Sig, args []plan.Expr) (types.Type, bool) {
	if len(args) > len(sig.Args) && !sig.Variadic || len(args) < len(sig.Args)-sig.Optional {
		return 0, false
	}
	generic := types.Null
	for i, a := range args {
		want := sig.Args[min(i, len(sig.Args)-1)]
		if want == plan.AnyType {
			if generic == types.Null {
				generic = a.Type()
			}
			want = generic
		}
		if a.Type() != want && a.Type() != types.Null {
			return 0, false
		}
	}
	if sig.Result == plan.AnyType {
		return generic, true
	}
	return sig.Result, true
}

// sameValue is equality of results: NaN is NaN, and 0 is not -0.
func sameValue(a, b types.Value) bool {
	if a.Type != b.Type || a.IsNull != b.IsNull {
		return false
	}
	if a.IsNull {
		return true
	}
	if list, ok := a.A.([]types.Value); ok {
		other, ok := b.A.([]types.Value)
		return ok && slices.EqualFunc(list, other, sameValue)
	}
	if a.F != a.F {
		return b.F != b.F
	}
	return a.I == b.I && math.Float64bits(a.F) == math.Float64bits(b.F) && a.S == b.S && a.A == b.A
}

// batchOf makes a batch of rows.
func batchOf(s []types.Type, rows ...[]types.Value) *batch.Batch {
	b := batch.New(s)
	for _, r := range rows {
		b.AppendRow(r...)
	}
	return b
}

func mustCompile(t testing.TB, e plan.Expr, in []types.Type) *Program {
	t.Helper()
	p, err := Compile(e, in)
	if err != nil {
		t.Fatalf("Compile(%s): %v", e, err)
	}
	return p
}

// evalRow evaluates a program over one row.
func evalRow(p *Program, row []types.Value) (types.Value, error) {
	c, err := p.Eval(batchOf(p.in, row))
	if err != nil {
		return types.Value{}, err
	}
	return c.Value(0), nil
}

// evalOnce compiles e over columns of the types of row and evaluates it once.
func evalOnce(e plan.Expr, row []types.Value) (types.Value, error) {
	in := make([]types.Type, len(row))
	for i, v := range row {
		in[i] = v.Type
	}
	p, err := Compile(e, in)
	if err != nil {
		return types.Value{}, err
	}
	return evalRow(p, row)
}

func mustFilter(t testing.TB, e plan.Expr, in []types.Type) *Filter {
	t.Helper()
	f, err := CompileFilter(e, in)
	if err != nil {
		t.Fatalf("CompileFilter(%s): %v", e, err)
	}
	return f
}

// forms gives the ways in which arguments can reach a kernel: every mixture of
// constants and columns. visit gets the call and the row its columns hold.
func forms(fn string, args []types.Value, visit func(e plan.Expr, row []types.Value)) {
	for mask := range 1 << len(args) {
		var row []types.Value
		es := make([]plan.Expr, len(args))
		for i, v := range args {
			if mask>>i&1 == 0 {
				es[i] = lit(v)
				continue
			}
			es[i] = col(len(row), v.Type)
			row = append(row, v)
		}
		visit(call(fn, es...), row)
	}
}
