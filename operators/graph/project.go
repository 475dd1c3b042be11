package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// project computes expressions. Columns that it only renames or reorders are shared with
// its input; computed ones are copied once, from the program that owns them into a recycled
// batch, so that consumers may keep the result.
type project struct {
	out   operators.Output
	exprs []projection
	pool  *batch.Pool    // of the computed columns
	cols  []batch.Column // scratch: the headers of one result
}

// projection is one output column: column col of the input, or, if prog is not
// nil, column col of the computed ones.
type projection struct {
	col  int
	prog *expr.Program
}

func newProject(n *plan.Project, down operators.Operator) (operators.Operator, error) {
	p := &project{out: operators.Output{To: down}, cols: make([]batch.Column, len(n.Exprs))}
	in := n.Input.Schema().Types()
	var computed []types.Type
	for _, e := range n.Exprs {
		if c, ok := e.(*plan.Col); ok {
			p.exprs = append(p.exprs, projection{col: c.Index})
			continue
		}
		prog, err := expr.Compile(e, in)
		if err != nil {
			return nil, err
		}
		p.exprs = append(p.exprs, projection{len(computed), prog})
		computed = append(computed, e.Type())
	}
	if computed != nil {
		p.pool = batch.NewPool(computed)
	}
	return p, nil
}

func (p *project) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if p.out.Status != operators.More {
		return p.out.Status, nil
	}
	var own *batch.Batch
	if p.pool != nil {
		own = p.pool.Get()
		own.N = b.N
	}
	for i, e := range p.exprs {
		if e.prog == nil {
			p.cols[i] = b.Cols[e.col]
			continue
		}
		c, err := e.prog.Eval(b)
		if err != nil {
			own.Release()
			return p.out.Status, err
		}
		copyColumn(&own.Cols[e.col], c, b.N)
		p.cols[i] = own.Cols[e.col]
	}
	d := b.Derive(own, p.cols)
	clear(p.cols)
	defer d.Release()
	return p.out.Push(ctx, d)
}

// copyColumn copies the first n rows of src to dst. The dictionary is shared, which is safe
// because it only grows.
func copyColumn(dst, src *batch.Column, n int) {
	dst.Type = src.Type
	dst.Nulls = append(dst.Nulls[:0], src.Nulls...)
	switch src.Type.Physical() {
	case types.PhysBool:
		dst.Bool = append(dst.Bool[:0], src.Bool[:n]...)
	case types.PhysInt:
		dst.Int = append(dst.Int[:0], src.Int[:n]...)
	case types.PhysFloat:
		dst.Float = append(dst.Float[:0], src.Float[:n]...)
	case types.PhysCode:
		dst.Code = append(dst.Code[:0], src.Code[:n]...)
		dst.Dict, dst.Values = src.Dict, src.Values
	case types.PhysAny:
		dst.Any = append(dst.Any[:0], src.Any[:n]...)
	}
}

func (p *project) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return p.out.Signal(ctx, s)
}

func (p *project) Close(ctx context.Context, _ int) error { return p.out.Close(ctx) }
