package graph

import (
	"context"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// values is a source within the graph: a constant relation. [Graph.StartValues] runs it.
type values struct {
	out  operators.Output
	rows [][]plan.Const
	pool *batch.Pool
	self measured // a source has no caller: it measures itself
}

func newValues(n *plan.Values, down operators.Operator, st *Stats) *values {
	return &values{operators.Output{To: down}, n.Rows, batch.NewPool(n.Out.Types()), measured{to: st}}
}

// run pushes all rows and closes the consumer.
func (v *values) run(ctx context.Context) error {
	defer v.self.charge(time.Now())
	rows := v.rows
	for len(rows) > 0 && v.out.Status == operators.More {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(rows), batch.MaxRows)
		if err := v.push(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return v.out.Close(ctx)
}

func (v *values) push(ctx context.Context, rows [][]plan.Const) error {
	b := v.pool.Get()
	defer b.Release()
	for _, r := range rows {
		for i := range r {
			b.Cols[i].Append(b.N, r[i].V)
		}
		b.N++
	}
	_, err := v.out.Push(ctx, b)
	return err
}
