package operators

import (
	"context"

	"endoscope/operators/batch"
)

// Tap is told what arrives at an input of a join, before the join is: rows, by
// the time of the latest in a batch, and promises.
type Tap struct {
	Rows      func(latest int64)
	Watermark func(t int64)
}

// tapped is an operator that is fed past a tap.
type tapped struct {
	Operator
	tap  Tap
	time int // index of the time column
}

func (o tapped) Push(ctx context.Context, port int, b *batch.Batch) (Status, error) {
	col := &b.Cols[o.time]
	latest, any := int64(0), false
	for _, r := range rowsOf(b) {
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

func (o tapped) Signal(ctx context.Context, port int, s Signal) (Status, error) {
	if s.Kind == Watermark {
		o.tap.Watermark(s.Time)
	}
	return o.Operator.Signal(ctx, port, s)
}

func (o tapped) Close(ctx context.Context, port int) error {
	o.tap.Watermark(endOfTime)
	return o.Operator.Close(ctx, port)
}
