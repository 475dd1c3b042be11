package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// tapped is an operator whose input is observed by a tap.
type tapped struct {
	operators.Operator
	tap  operators.Tap
	time int // index of the time column
}

func (o tapped) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	col := &b.Cols[o.time]
	latest, any := int64(0), false
	for _, r := range batch.RowsOf(b) {
		if len(col.Nulls) > 0 && col.Nulls.Get(int(r)) {
			continue
		}
		if t := col.Int[r]; !any || t > latest {
			latest, any = t, true
		}
	}
	if any {
		o.tap.Rows(latest)
	}
	return o.Operator.Push(ctx, port, b)
}

func (o tapped) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Watermark {
		o.tap.Watermark(s.Time)
	}
	return o.Operator.Signal(ctx, port, s)
}

func (o tapped) Close(ctx context.Context, port int) error {
	o.tap.Watermark(operators.EndOfTime)
	return o.Operator.Close(ctx, port)
}
