package expr

import (
	"math"
	"slices"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"

	"pgregory.net/rapid"
)

// The random schema has two columns of each type that scalars take; the two
// VARCHAR columns may share a dictionary.
var randomSchema = []types.Type{
	types.Boolean, types.Boolean, types.Bigint, types.Bigint, types.Double, types.Double,
	types.Varchar, types.Varchar, types.Timestamp, types.Timestamp, types.Duration, types.Duration,
	types.Bytes, types.Bytes, types.Ubigint, types.Ubigint,
}

var randomValues = map[types.Type][]types.Value{
	types.Boolean:   {B(true), B(false)},
	types.Bigint:    {I(0), I(1), I(-1), I(2), I(3), I(7), I(1 << 40), I(math.MaxInt64), I(math.MinInt64)},
	types.Ubigint:   {U(0), U(1), U(2), U(7), U(1 << 40), U(math.MaxInt64), U(1 << 63), U(math.MaxUint64)},
	types.Double:    {F(0), F(math.Copysign(0, -1)), F(1), F(-2.5), F(0.5), F(1e300), F(math.Inf(1)), F(math.NaN())},
	types.Varchar:   {S(""), S("a"), S("A"), S("ab"), S("a%"), S("añb"), S("12"), S("5us"), S("true"), S("1970-01-02")},
	types.Timestamp: {T(0), T(-1), T(1), T(1e18), T(math.MaxInt64), T(math.MinInt64)},
	types.Duration:  {D(0), D(1), D(-5), D(60e9), D(math.MaxInt64), D(math.MinInt64)},
	types.Bytes:     {raw(""), raw("\x00"), raw("a"), raw("ñ")},
	types.List:      {types.ListOf(nil), types.ListOf(vs(S("a"), I(1))), stackOf("leaf", "mid", "main")},
}

// Arguments for which a wrong value of any type is an error at compile time.
var randomPatterns = map[string][]plan.Expr{
	"~":              {nil, str("^a"), str("[0-9]+"), str("")},
	"regexp_extract": {nil, str("(a)|b"), str("[0-9]+"), str(".")},
	"date_trunc":     {str("second"), str("DAY")},
}

// randomExpr draws an expression of type typ.
func randomExpr(t *rapid.T, typ types.Type, depth int) plan.Expr {
	leaf := func() plan.Expr {
		switch rapid.IntRange(0, 5).Draw(t, "leaf") {
		case 0:
			return lit(rapid.SampledFrom(randomValues[typ]).Draw(t, "value"))
		case 1:
			if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
				return lit(N(typ))
			}
		}
		if typ == types.List { // no column has it
			return lit(rapid.SampledFrom(randomValues[typ]).Draw(t, "list"))
		}
		var cols []plan.Expr
		for k, c := range randomSchema {
			if c == typ {
				cols = append(cols, col(k, c))
			}
		}
		return rapid.SampledFrom(cols).Draw(t, "column")
	}
	if depth == 0 || typ == types.List {
		return leaf()
	}
	sub := func(typ types.Type) plan.Expr { return randomExpr(t, typ, depth-1) }
	anyType := func() types.Type { return randomSchema[rapid.IntRange(0, len(randomSchema)-1).Draw(t, "type")] }
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		return leaf()
	case 1:
		e := &plan.Case{T: typ}
		for range rapid.IntRange(1, 3).Draw(t, "arms") {
			e.Whens = append(e.Whens, plan.When{Cond: sub(types.Boolean), Then: sub(typ)})
		}
		if rapid.Bool().Draw(t, "else") {
			e.Else = sub(typ)
		}
		return e
	case 2:
		if typ == types.Boolean {
			x := sub(anyType())
			vals := append([]types.Value{N(x.Type())}, randomValues[x.Type()]...)
			return in(x, rapid.SliceOfN(rapid.SampledFrom(vals), 1, 6).Draw(t, "list")...)
		}
		if typ == types.Varchar {
			return cast(sub(anyType()), typ)
		}
		if typ != types.Bytes {
			return cast(sub(types.Varchar), typ)
		}
	}
	type choice struct {
		fn  plan.Scalar
		sig plan.Sig
	}
	var choices []choice
	for _, fn := range plan.Scalars {
		for _, sig := range fn.Sigs {
			if (sig.Result == typ || sig.Result == plan.AnyType) && !fn.Volatile && !slices.Contains(sig.Args, types.Encoding) {
				choices = append(choices, choice{fn, sig})
			}
		}
	}
	c := choices[rapid.IntRange(0, len(choices)-1).Draw(t, "function")]
	generic := typ
	if c.sig.Result != plan.AnyType {
		generic = anyType()
	}
	n := len(c.sig.Args) - rapid.IntRange(0, c.sig.Optional).Draw(t, "optional")
	if c.sig.Variadic {
		n += rapid.IntRange(0, 2).Draw(t, "more")
	}
	e := &plan.Call{Fn: c.fn.Name, T: typ}
	patterns := randomPatterns[e.Fn]
	for k := range n {
		a := c.sig.Args[min(k, len(c.sig.Args)-1)]
		if a == plan.AnyType {
			a = generic
		}
		if len(patterns) > 0 && (patterns[0] != nil) == (k == 0) && k < 2 {
			e.Args = append(e.Args, rapid.SampledFrom(patterns[1:]).Draw(t, "pattern"))
			continue
		}
		e.Args = append(e.Args, sub(a))
	}
	return e
}

// randomBatch draws rows over randomSchema with the given VARCHAR dictionaries
// and a selection.
func randomBatch(t *rapid.T, dicts [2]*batch.Dict) *batch.Batch {
	bt := batch.New(randomSchema)
	bt.Cols[6].Dict, bt.Cols[7].Dict = dicts[0], dicts[1]
	nulls := rapid.Bool().Draw(t, "nulls")
	for range rapid.IntRange(0, 70).Draw(t, "rows") {
		var row []types.Value
		for _, typ := range randomSchema {
			if nulls && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				row = append(row, N(typ))
				continue
			}
			row = append(row, rapid.SampledFrom(randomValues[typ]).Draw(t, "cell"))
		}
		bt.AppendRow(row...)
	}
	if rapid.Bool().Draw(t, "selection") {
		bt.Sel = []uint16{}
		for i := range bt.N {
			if rapid.Bool().Draw(t, "selected") {
				bt.Sel = append(bt.Sel, uint16(i))
			}
		}
		spoil(bt)
	}
	return bt
}

// spoil writes values that must not be read into the unselected rows.
func spoil(bt *batch.Batch) {
	next := 0
	for i := range bt.N {
		if next < len(bt.Sel) && int(bt.Sel[next]) == i {
			next++
			continue
		}
		for c := range bt.Cols {
			switch col := &bt.Cols[c]; col.Type.Physical() {
			case types.PhysInt:
				col.Int[i] = math.MinInt64
			case types.PhysCode:
				col.Code[i] = 1 << 30
			}
		}
	}
}

// TestVectorEqualsRows checks that a batch yields what its rows yield one at a time, as
// columns and as constants; that it fails if and only if a row does; and that a filter
// selects the rows for which the value is true.
func TestVectorEqualsRows(t *testing.T) {
	kinds := []types.Type{types.Boolean, types.Bigint, types.Double, types.Varchar, types.Timestamp, types.Duration, types.Bytes}
	for _, typ := range kinds {
		t.Run(typ.String(), func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkExpr(t, typ) }) })
	}
}

func checkExpr(t *rapid.T, typ types.Type) {
	e := randomExpr(t, typ, rapid.IntRange(1, 3).Draw(t, "depth"))
	vector, err := Compile(e, randomSchema)
	if err != nil {
		t.Fatalf("Compile(%s): %v", e, err)
	}
	single, _ := Compile(e, randomSchema)
	own := [2]*batch.Dict{batch.NewDict(), batch.NewDict()}
	one := batch.NewDict()
	for range 3 { // caches persist from batch to batch
		dicts := own
		if rapid.Bool().Draw(t, "shared") {
			dicts = [2]*batch.Dict{one, one}
		}
		checkBatch(t, e, vector, single, randomBatch(t, dicts))
	}
}

func checkBatch(t *rapid.T, e plan.Expr, vector, single *Program, bt *batch.Batch) {
	col, vectorErr := vector.Eval(bt)
	var rowErr error
	var isTrue []uint16
	for k := range bt.Len() {
		i := bt.Row(k)
		row := make([]types.Value, len(bt.Cols))
		for c := range bt.Cols {
			row[c] = bt.Cols[c].Value(i)
		}
		want, err := evalRow(single, row)
		if err != nil {
			rowErr = err
			continue
		}
		if want.I != 0 && !want.IsNull {
			isTrue = append(isTrue, uint16(i))
		}
		if vectorErr == nil && !sameValue(col.Value(i), want) {
			t.Fatalf("%s\nrow %v\nin a batch: %+v\nalone: %+v", e, row, col.Value(i), want)
		}
		if vectorErr == nil && want.IsNull && !zeroEntry(col, i) {
			t.Fatalf("%s\nrow %v\nthe entry of a NULL is not zero", e, row)
		}
		if c, err := EvalConst(substitute(e, row)); err != nil || !sameValue(c, want) {
			t.Fatalf("%s\nrow %v\nas constants: %+v, %v\nas columns: %+v", e, row, c, err, want)
		}
	}
	if (vectorErr == nil) != (rowErr == nil) {
		t.Fatalf("%s\nbatch: %v\nrows: %v", e, vectorErr, rowErr)
	}
	if vectorErr == nil && e.Type() == types.Boolean {
		checkFilter(t, e, bt, isTrue)
	}
}

// zeroEntry reports whether the entry at row i is zero, as columns promise for NULLs.
func zeroEntry(c *batch.Column, i int) bool {
	switch c.Type.Physical() {
	case types.PhysBool:
		return !c.Bool[i]
	case types.PhysInt:
		return c.Int[i] == 0
	case types.PhysFloat:
		return c.Float[i] == 0
	case types.PhysCode:
		return int(c.Code[i]) < len(c.Values)
	}
	return true
}

func checkFilter(t *rapid.T, e plan.Expr, bt *batch.Batch, want []uint16) {
	f, err := CompileFilter(e, randomSchema)
	if err != nil {
		t.Fatalf("CompileFilter(%s): %v", e, err)
	}
	got, err := f.Select(bt, nil)
	if err != nil || got == nil || !equalRows(got, want) {
		t.Fatalf("%s\nchosen %v, %v\nwant %v", e, got, err, want)
	}
	kept, err := f.Select(bt, []uint16{7})
	if err != nil || kept[0] != 7 || !equalRows(kept[1:], want) {
		t.Fatalf("%s\nappended %v, %v\nwant 7 and %v", e, kept, err, want)
	}
}

func equalRows(a, b []uint16) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// substitute replaces the columns by a row's values.
func substitute(e plan.Expr, row []types.Value) plan.Expr {
	return plan.Transform(e, func(e plan.Expr) plan.Expr {
		if c, ok := e.(*plan.Col); ok {
			return lit(row[c.Index])
		}
		return e
	})
}
