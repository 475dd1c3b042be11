package join

import (
	"context"
	"fmt"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
)

// valueJoin joins each left row with the value of its right input at the time the row
// arrives; the rows of one batch see one value. Nothing is acquired before or after.
type valueJoin struct {
	joinBase
	demand func(context.Context) error
	value  []*batch.Batch // the last value of the right input
}

func newValueJoin(b joinBase, o *operators.Options) (*valueJoin, error) {
	leaves := plan.Leaves(b.node.Right)
	if len(leaves) != 1 || !leaves[0].OnDemand || o.Demand == nil {
		return nil, fmt.Errorf("%s: its right input is not a value", b.node.Describe())
	}
	return &valueJoin{joinBase: b, demand: o.Demand(leaves[0])}, nil
}

func (j *valueJoin) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	if port == right {
		j.value = append(j.value, b.Retain())
		return operators.More, nil
	}
	if j.out.Status != operators.More || b.Len() == 0 {
		return j.out.Status, nil
	}
	defer j.forget()
	if err := j.demand(ctx); err != nil {
		return j.out.Status, err
	}
	for _, v := range j.value {
		if err := j.pairAll(ctx, b, v); err != nil {
			return j.out.Status, err
		}
	}
	return j.out.Status, nil
}

func (j *valueJoin) forget() {
	for _, v := range j.value {
		v.Release()
	}
	j.value = j.value[:0]
}

// pairAll emits the pairs of l and v that satisfy the condition.
func (j *valueJoin) pairAll(ctx context.Context, l, v *batch.Batch) error {
	ls, vs := batch.RowsOf(l), batch.RowsOf(v)
	rows := [2][]uint16{}
	for _, r := range ls {
		if j.out.Status != operators.More {
			return nil
		}
		for _, w := range vs {
			rows[left], rows[right] = append(rows[left], r), append(rows[right], w)
			if len(rows[left]) == batch.MaxRows {
				if err := j.emitPairs(ctx, l, v, rows); err != nil {
					return err
				}
				rows[left], rows[right] = rows[left][:0], rows[right][:0]
			}
		}
	}
	return j.emitPairs(ctx, l, v, rows)
}

func (j *valueJoin) emitPairs(ctx context.Context, l, v *batch.Batch, rows [2][]uint16) error {
	if len(rows[left]) == 0 || j.out.Status != operators.More {
		return nil
	}
	if err := ctx.Err(); err != nil { // there may be many more
		return err
	}
	b := j.wide.Get()
	defer b.Release()
	for c := range b.Cols {
		if from := j.sides[right].from; c < from {
			rowstore.AppendRows(&b.Cols[c], 0, &l.Cols[c], rows[left], nil)
		} else {
			rowstore.AppendRows(&b.Cols[c], 0, &v.Cols[c-from], rows[right], nil)
		}
	}
	b.N = len(rows[left])
	if j.cond == nil {
		_, err := j.out.Push(ctx, b)
		return err
	}
	sel, err := j.cond.Select(b, j.sel[:0])
	if err != nil {
		return err
	}
	j.sel = sel
	view := b.View(sel)
	defer view.Release()
	_, err = j.out.Push(ctx, view)
	return err
}

// Signal forwards the signals of the left input; those of the value are ignored.
func (j *valueJoin) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if port == right {
		return operators.More, nil
	}
	return j.out.Signal(ctx, s)
}

func (j *valueJoin) Close(ctx context.Context, port int) error {
	if port == right {
		return nil
	}
	return j.out.Close(ctx)
}
