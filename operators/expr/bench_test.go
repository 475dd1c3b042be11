package expr

import (
	"fmt"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// benchSchema: a BIGINT, b BIGINT, x DOUBLE, s and t VARCHAR of 64 names.
var benchSchema = []types.Type{types.Bigint, types.Bigint, types.Double, types.Varchar, types.Varchar}

var (
	colA = col(0, types.Bigint)
	colB = col(1, types.Bigint)
	colX = col(2, types.Double)
	colS = col(3, types.Varchar)
	colT = col(4, types.Varchar)
)

// benchBatch is full, with values that no branch predictor learns.
func benchBatch() *batch.Batch {
	bt := batch.New(benchSchema)
	r := uint64(1)
	for range batch.MaxRows {
		r = r*6364136223846793005 + 1442695040888963407
		bt.AppendRow(I(int64(r>>33%10)), I(int64(r>>40%100)+1), F(float64(r>>44%1000)/10),
			S(fmt.Sprintf("function_%d", r>>50%64)), S(fmt.Sprintf("module_%d", r>>54%64)))
	}
	return bt
}

func rowsPerSecond(b *testing.B, bt *batch.Batch) {
	b.ReportMetric(float64(bt.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkFilter(b *testing.B) {
	var names, ints []types.Value
	for k := range 100 {
		names = append(names, S(fmt.Sprintf("function_%d", 2*k)))
		ints = append(ints, I(int64(3*k)))
	}
	for _, c := range []struct {
		name string
		e    plan.Expr
	}{
		{"int", call(">", colA, num(5))},
		{"int_columns", call("<", colA, colB)},
		{"double", call(">", colX, dbl(50))},
		{"int_and_text", call("and", call(">", colA, num(5)), call("=", colS, str("function_7")))},
		{"int_or_text", call("or", call(">", colA, num(5)), call("=", colS, str("function_7")))},
		{"like", call("like", colS, str("%on_1%"))},
		{"regexp", call("~", colS, str("on_[1-3]+$"))},
		{"lower_eq", call("=", call("lower", colS), str("function_7"))},
		{"in_text_100", in(colS, names...)},
		{"in_int_100", in(colB, ints...)},
		{"in_int_3", in(colB, ints[:3]...)},
		{"text_columns", call("<", colS, colT)},
	} {
		b.Run(c.name, func(b *testing.B) {
			bt, f := benchBatch(), mustFilter(b, c.e, benchSchema)
			var sel []uint16
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if sel, err = f.Select(bt, sel[:0]); err != nil {
					b.Fatal(err)
				}
			}
			rowsPerSecond(b, bt)
		})
	}
}

func BenchmarkEval(b *testing.B) {
	for _, c := range []struct {
		name string
		e    plan.Expr
	}{
		{"add_const", call("+", colA, num(5))},
		{"add", call("+", colA, colB)},
		{"mul", call("*", colA, colB)},
		{"div", call("/", colA, colB)},
		{"add_double", call("+", colX, dbl(5))},
		{"mixed", call("*", call("+", cast(colA, types.Double), colX), dbl(2))},
		{"compare", call(">", colA, num(5))},
		{"upper", call("upper", colS)},
		{"length", call("length", colS)},
		{"concat_columns", call("||", colS, colT)},
		{"case", &plan.Case{T: types.Bigint, Whens: []plan.When{{Cond: call(">", colA, num(5)), Then: colA}}, Else: colB}},
		{"cast_to_text", cast(colA, types.Varchar)},
	} {
		b.Run(c.name, func(b *testing.B) {
			bt, p := benchBatch(), mustCompile(b, c.e, benchSchema)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Eval(bt); err != nil {
					b.Fatal(err)
				}
			}
			rowsPerSecond(b, bt)
		})
	}
}
