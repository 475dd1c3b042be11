// Package exprtest evaluates expressions over single rows, for tests of other engines. It is
// slow, and must not be imported by production code.
package exprtest

import (
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// EvalRow evaluates e over a row, with one value per input column.
func EvalRow(e plan.Expr, row []types.Value) (types.Value, error) {
	p, err := expr.Compile(e, typesOf(row))
	if err != nil {
		return types.Value{}, err
	}
	return Eval(p, row)
}

// Eval evaluates a program over a row, with one value per input column.
func Eval(p *expr.Program, row []types.Value) (types.Value, error) {
	b := batch.New(typesOf(row))
	b.AppendRow(row...)
	c, err := p.Eval(b)
	if err != nil {
		return types.Value{}, err
	}
	return c.Value(0), nil
}

func typesOf(row []types.Value) []types.Type {
	in := make([]types.Type, len(row))
	for i, v := range row {
		in[i] = v.Type
	}
	return in
}
