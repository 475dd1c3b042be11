package operators

import (
	"context"

	"endoscope/operators/batch"
)

// Output is an operator's consumer, called on its port 0. It remembers the consumer's last
// status, so that an operator with nothing to push (a filter that keeps no row) can still
// return a Drain to its own producer.
type Output struct {
	To     Operator
	Status Status
}

// Push pushes the batch to the consumer, unless it is empty or the consumer is drained.
func (o *Output) Push(ctx context.Context, b *batch.Batch) (Status, error) {
	if o.Status != More || b.Len() == 0 {
		return o.Status, nil
	}
	return o.answer(o.To.Push(ctx, 0, b))
}

func (o *Output) Signal(ctx context.Context, s Signal) (Status, error) {
	if o.Status == Closed {
		return Closed, nil
	}
	return o.answer(o.To.Signal(ctx, 0, s))
}

func (o *Output) Close(ctx context.Context) error {
	if o.Status == Closed {
		return nil
	}
	o.Status = Closed
	return o.To.Close(ctx, 0)
}

// answer keeps the status from going back: after Drain there is no More.
func (o *Output) answer(s Status, err error) (Status, error) {
	o.Status = max(o.Status, s)
	return o.Status, err
}
