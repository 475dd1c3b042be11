package expr

import (
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// TestNoAllocations: once a program has seen its strings, a batch allocates
// nothing, whole or with a selection, with NULLs or without.
func TestNoAllocations(t *testing.T) {
	full, nulls := benchBatch(), batch.New(benchSchema)
	for i := range full.N {
		row := make([]types.Value, len(benchSchema))
		for c, typ := range benchSchema {
			if row[c] = full.Cols[c].Value(i); (i+c)%5 == 0 {
				row[c] = N(typ)
			}
		}
		nulls.AppendRow(row...)
	}
	var half []uint16
	for i := 0; i < full.N; i += 2 {
		half = append(half, uint16(i))
	}
	batches := []*batch.Batch{full, nulls, full.View(half), nulls.View(half)}
	big := call(">", colA, num(5))
	for _, e := range []plan.Expr{
		colA, num(5), str("x"),
		call("+", colA, colB), call("-", num(3), colA), call("/", colA, colB), call("*", colX, dbl(2)),
		call("+", cast(colA, types.Double), colX), call("round", colX, num(1)), call("sqrt", colX),
		big, call("=", colS, colT), call("<", colX, colX), call("and", big, call("=", colS, str("function_7"))),
		call("or", big, call("like", colS, str("%7"))), call("not", call("is null", colT)),
		in(colA, I(1), I(2)), in(colS, S("function_1"), N(types.Varchar)), in(colX, F(1)),
		call("like", call("||", colS, colT), str("%_7")), call("~", colS, str("7$")), call("like", colS, colT),
		call("lower", call("||", colS, colT)), call("replace", colS, colT, str("x")), call("concat", colS, str("-"), colT),
		call("substr", colS, colA), call("split_part", call("||", colS, colT), str("_"), colA),
		call("coalesce", colS, colT), call("least", colS, colT), call("greatest", colA, colB), call("nullif", colS, colT),
		&plan.Case{T: types.Varchar, Whens: []plan.When{{Cond: big, Then: colS}}, Else: colT},
		cast(colA, types.Varchar), cast(cast(colA, types.Duration), types.Double), cast(colX, types.Bigint),
		call("now"), call("date_trunc", str("day"), cast(colA, types.Timestamp)),
	} {
		p := mustCompile(t, e, benchSchema)
		eval := func() {
			for _, bt := range batches {
				if _, err := p.Eval(bt); err != nil {
					t.Fatal(err)
				}
			}
		}
		eval()
		if n := testing.AllocsPerRun(10, eval); n != 0 {
			t.Errorf("%s: Eval allocates %v times", e, n)
		}
		if e.Type() != types.Boolean {
			continue
		}
		f := mustFilter(t, e, benchSchema)
		sel := make([]uint16, 0, batch.MaxRows)
		choose := func() {
			for _, bt := range batches {
				var err error
				if sel, err = f.Select(bt, sel[:0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		choose()
		if n := testing.AllocsPerRun(10, choose); n != 0 {
			t.Errorf("%s: Select allocates %v times", e, n)
		}
	}
}
