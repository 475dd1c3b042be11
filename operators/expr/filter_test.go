package expr

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var filterSchema = []types.Type{types.Bigint, types.Varchar, types.Boolean}

func filterBatch() *batch.Batch {
	return batchOf(filterSchema,
		vs(I(1), S("x"), B(true)),
		vs(I(9), S("x"), B(false)),
		vs(I(9), S("y"), N(types.Boolean)),
		vs(N(types.Bigint), S("x"), B(true)),
		vs(I(9), N(types.Varchar), B(false)),
		vs(I(7), S("x"), B(true)))
}

func TestFilter(t *testing.T) {
	a, s, b := col(0, types.Bigint), col(1, types.Varchar), col(2, types.Boolean)
	big, isX := call(">", a, num(5)), call("=", s, str("x"))
	for _, c := range []struct {
		cond plan.Expr
		want []uint16
	}{
		{big, []uint16{1, 2, 4, 5}},
		{call("not", big), []uint16{0}},
		{call("<", a, call("-", num(10), a)), []uint16{0}},
		{call(">=", a, call("-", num(10), a)), []uint16{1, 2, 4, 5}},
		{call("=", a, call("-", num(18), a)), []uint16{1, 2, 4}},
		{call("<>", a, call("-", num(18), a)), []uint16{0, 5}},
		{call(">", a, call("-", num(18), a)), nil},
		{call("<=", a, call("-", num(18), a)), []uint16{0, 1, 2, 4, 5}},
		{isX, []uint16{0, 1, 3, 5}},
		{call("not", isX), []uint16{2}},
		{call("and", big, isX), []uint16{1, 5}},
		{call("not", call("and", big, isX)), []uint16{0, 2}},
		{call("or", big, isX), []uint16{0, 1, 2, 3, 4, 5}},
		{call("not", call("or", big, call("not", isX))), []uint16{0}},
		{b, []uint16{0, 3, 5}},
		{call("not", b), []uint16{1, 4}},
		{call("is null", b), []uint16{2}},
		{call("not", call("is null", a)), []uint16{0, 1, 2, 4, 5}},
		{in(a, I(9), I(1)), []uint16{0, 1, 2, 4}},
		{call("not", in(a, I(9))), []uint16{0, 5}},
		{call("not", in(a, I(9), N(types.Bigint))), nil},
		{in(s, S("y"), S("z")), []uint16{2}},
		{boolean(true), []uint16{0, 1, 2, 3, 4, 5}},
		{boolean(false), nil},
		{lit(N(types.Boolean)), nil},
		{lit(N(types.Null)), nil},
	} {
		got, err := mustFilter(t, c.cond, filterSchema).Select(filterBatch(), nil)
		if err != nil || got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%s chooses %v, %v; want %v", c.cond, got, err, c.want)
		}
		view := filterBatch()
		view.Sel = []uint16{1, 2, 5}
		var within []uint16
		for _, r := range c.want {
			if slices.Contains(view.Sel, r) {
				within = append(within, r)
			}
		}
		if got, err = mustFilter(t, c.cond, filterSchema).Select(view, nil); err != nil || !slices.Equal(got, within) {
			t.Errorf("%s of rows 1, 2, 5 chooses %v, %v; want %v", c.cond, got, err, within)
		}
	}
}

// TestFilterOfEmptySelection: a selection of no rows is not one of all rows.
func TestFilterOfEmptySelection(t *testing.T) {
	view := filterBatch()
	view.Sel = []uint16{}
	a := col(0, types.Bigint)
	for _, e := range []plan.Expr{
		call(">", a, num(0)), call("and", call(">", a, num(0)), call("=", col(1, types.Varchar), str("x"))),
		call("or", call(">", a, num(0)), call("is null", a)),
	} {
		if got, err := mustFilter(t, e, filterSchema).Select(view, nil); err != nil || got == nil || len(got) != 0 {
			t.Errorf("%s chooses %v, %v", e, got, err)
		}
	}
}

// TestGuards: what a condition excludes is not computed, and so cannot fail.
func TestGuards(t *testing.T) {
	a := col(0, types.Bigint)
	fails := call("+", a, num(maxInt)) // of every a above 0
	small := call("<=", a, num(0))
	overflow := "BIGINT out of range in c0 + 9223372036854775807"
	for _, c := range []struct {
		name string
		e    plan.Expr
		want string
	}{
		{"unguarded", fails, overflow},
		{"case", &plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: small, Then: fails}}, Else: a}, ""},
		{"case else", &plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: call("not", small), Then: a}}, Else: fails}, ""},
		{"case when", &plan.Case{T: types.Bigint, Whens: []plan.When{
			{Cond: call("not", small), Then: a}, {Cond: call("=", fails, num(0)), Then: num(1)}}}, ""},
		{"coalesce", call("coalesce", a, fails), ""},
		{"and", call("and", small, call(">", fails, num(0))), ""},
		{"or", call("or", call("not", small), call(">", fails, num(0))), ""},
		{"and, guard second", call("and", call(">", fails, num(0)), small), overflow},
		{"constant in a branch not taken", &plan.Case{T: types.Bigint,
			Whens: []plan.When{{Cond: call("is null", a), Then: call("neg", num(minInt))}}, Else: a}, ""},
	} {
		bt := batchOf([]types.Type{types.Bigint}, vs(I(-3)), vs(I(4)), vs(I(0)), vs(I(5)))
		_, err := mustCompile(t, c.e, []types.Type{types.Bigint}).Eval(bt)
		if c.e.Type() == types.Boolean {
			f := mustFilter(t, c.e, []types.Type{types.Bigint})
			if _, ferr := f.Select(bt, nil); (ferr == nil) != (err == nil) {
				t.Errorf("%s: Eval %v, Select %v", c.name, err, ferr)
			}
		}
		var pe *plan.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &pe) || pe.Msg != c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestErrorsSurface: an error in an argument is the error of the whole.
func TestErrorsSurface(t *testing.T) {
	a := col(0, types.Bigint)
	fails := call("+", a, num(maxInt))
	failsText, failsBool := cast(fails, types.Varchar), call(">", fails, num(0))
	for _, e := range []plan.Expr{
		fails, call("-", a, fails), call("-", fails, a), call("abs", fails), call("neg", fails), call("/", a, fails), call("/", fails, a),
		cast(fails, types.Double), failsText, call("like", failsText, str("x")), cast(failsText, types.Bytes), call("concat", failsText),
		failsBool, call("=", a, fails), call("not", failsBool), call("is null", fails), in(fails, I(1)),
		call("and", failsBool, boolean(true)), call("and", boolean(true), failsBool),
		call("or", failsBool, boolean(false)), call("or", boolean(false), failsBool),
		call("not", call("and", boolean(true), failsBool)), call("=", failsBool, boolean(true)),
		call("coalesce", fails, a), call("least", a, fails), call("nullif", fails, a), call("nullif", a, fails),
		&plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: failsBool, Then: a}}},
		&plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: boolean(true), Then: fails}}},
		&plan.Case{T: types.Boolean, Whens: []plan.When{{Cond: boolean(false), Then: failsBool}}, Else: failsBool},
	} {
		var pe *plan.Error
		if v, err := evalOnce(e, vs(I(1))); !errors.As(err, &pe) {
			t.Errorf("%s: %+v, %v", e, v, err)
		}
		if v, err := EvalConst(substitute(e, vs(I(1)))); !errors.As(err, &pe) {
			t.Errorf("%s of constants: %+v, %v", e, v, err)
		}
		if e.Type() == types.Boolean {
			in := []types.Type{types.Bigint}
			if sel, err := mustFilter(t, e, in).Select(batchOf(in, vs(I(1))), nil); !errors.As(err, &pe) {
				t.Errorf("%s chooses %v, %v", e, sel, err)
			}
		}
	}
}

// TestNullColumn: a column of the type of NULL has no data at all.
func TestNullColumn(t *testing.T) {
	in := []types.Type{types.Null}
	x, bt := col(0, types.Null), batchOf(in, vs(N(types.Null)), vs(N(types.Null)))
	for _, c := range []struct {
		e      plan.Expr
		chosen int
	}{
		{call("is null", x), 2},
		{call("not", call("is null", x)), 0},
		{x, 0},
		{&plan.Call{Fn: "or", Args: []plan.Expr{x, boolean(true)}, T: types.Boolean}, 2},
		{&plan.In{X: x, List: []plan.Const{{V: N(types.Null)}}}, 0},
		{&plan.Call{Fn: "coalesce", Args: []plan.Expr{x, boolean(true)}, T: types.Boolean}, 2},
		{cast(x, types.Boolean), 0},
	} {
		if sel, err := mustFilter(t, c.e, in).Select(bt, nil); err != nil || len(sel) != c.chosen {
			t.Errorf("%s chooses %v, %v; want %d rows", c.e, sel, err, c.chosen)
		}
		col, err := mustCompile(t, c.e, in).Eval(bt)
		if err != nil {
			t.Fatal(err)
		}
		isTrue := 0
		for i := range bt.N {
			if v := col.Value(i); !v.IsNull && v.I != 0 {
				isTrue++
			}
		}
		if isTrue != c.chosen {
			t.Errorf("%s is true of %d rows, want %d", c.e, isTrue, c.chosen)
		}
	}
}

// TestOverflowAtNull: a kernel computes NULL rows too, but they do not fail.
func TestOverflowAtNull(t *testing.T) {
	in := []types.Type{types.Bigint}
	bt := batchOf(in, vs(N(types.Bigint)), vs(I(-1)))
	c, err := mustCompile(t, call("-", col(0, types.Bigint), num(minInt)), in).Eval(bt)
	if err != nil || !c.Nulls.Get(0) || c.Int[1] != maxInt {
		t.Errorf("{NULL, -1} - MinInt64 = %v, %v", c, err)
	}
}

func TestRefusals(t *testing.T) {
	s := col(1, types.Varchar)
	at := func(v types.Value) plan.Expr { return &plan.Const{V: v, Start: 10, Stop: 14} }
	for _, c := range []struct {
		e     plan.Expr
		want  string
		place bool
	}{
		{call("~", s, at(S("a("))), "'a(' is not a regular expression: missing closing ): a(", true},
		{call("regexp_extract", s, at(S("["))), "'[' is not a regular expression: missing closing ]: [", true},
		{call("date_trunc", at(S("week")), lit(T(0))), "date_trunc does not know the unit 'week'", true},
		{&plan.Call{Fn: "least", Args: []plan.Expr{lit(types.ListOf(nil))}, T: types.List}, "least is not defined for LIST", false},
		{&plan.Call{Fn: "frobnicate", T: types.Bigint}, "there is no function frobnicate", false},
		{cast(col(2, types.Boolean), types.Duration), "c2 cannot be converted to DURATION: it is BOOLEAN", false},
		{cast(s, types.List), "c1 cannot be converted to LIST: it is VARCHAR", false},
		{in(lit(types.ListOf(nil)), types.ListOf(nil)), "values of type LIST cannot be compared", false},
		{&plan.Call{Fn: "<", Args: []plan.Expr{lit(types.ListOf(nil)), lit(types.ListOf(nil))}, T: types.Boolean}, "< is not defined for LIST, LIST", false},
		{&plan.Call{Fn: "-", Args: []plan.Expr{s, s}, T: types.Bigint}, "- is not defined for VARCHAR, VARCHAR", false},
		{in(col(0, types.Bigint), S("x")), "'x' is VARCHAR and cannot be in a list for c0, which is BIGINT", false},
	} {
		_, err := Compile(c.e, filterSchema)
		var pe *plan.Error
		if !errors.As(err, &pe) || pe.Msg != c.want || (pe.Start == 10) != c.place {
			t.Errorf("%s: %v, want %q", c.e, err, c.want)
		}
	}
	if _, err := CompileFilter(s, filterSchema); err == nil || !strings.Contains(err.Error(), "BOOLEAN") {
		t.Errorf("a VARCHAR condition: %v", err)
	}
	if _, err := Compile(col(3, types.Bigint), filterSchema); err == nil {
		t.Error("a column that does not exist compiles")
	}
	if _, err := Compile(col(0, types.Double), filterSchema); err == nil {
		t.Error("a column of another type compiles")
	}
	if _, err := mustCompile(t, s, filterSchema).Eval(&batch.Batch{}); err == nil {
		t.Error("a batch without the columns is evaluated")
	}
}

// TestBareColumn: a column reference is the batch's own column; everything
// else is the program's, down to the slices.
func TestBareColumn(t *testing.T) {
	in := []types.Type{types.Bigint, types.Varchar}
	bt := batchOf(in, vs(I(1), S("a")), vs(I(2), S("b")))
	c, err := mustCompile(t, col(0, types.Bigint), in).Eval(bt)
	if err != nil || c != &bt.Cols[0] {
		t.Errorf("a column is copied (%v)", err)
	}
	for _, e := range []plan.Expr{
		cast(col(0, types.Bigint), types.Duration), cast(col(1, types.Varchar), types.Bytes),
		call("coalesce", col(1, types.Varchar), str("")), call("nullif", col(0, types.Bigint), num(1)),
	} {
		c, err := mustCompile(t, e, in).Eval(bt)
		if err != nil {
			t.Fatal(err)
		}
		for k := range bt.N {
			switch c.Type.Physical() {
			case types.PhysInt:
				c.Int[k] = 99
			case types.PhysCode:
				c.Code[k] = 99
			}
		}
		if bt.Cols[0].Int[1] != 2 || bt.Cols[1].Code[1] != 1 {
			t.Errorf("%s shares memory with the batch", e)
		}
	}
}
