package operators

import (
	"context"

	"endoscope/operators/batch"
)

// output is an operator's consumer, fed on its port 0. It remembers what the
// consumer last answered, so that an operator with nothing to push (a filter
// that keeps no row) can still pass a Drain on to its own producer.
type output struct {
	op     Operator
	status Status
}

// push gives the consumer a batch, unless it is empty or not wanted.
func (o *output) push(ctx context.Context, b *batch.Batch) (Status, error) {
	if o.status != More || b.Len() == 0 {
		return o.status, nil
	}
	return o.answer(o.op.Push(ctx, 0, b))
}

func (o *output) signal(ctx context.Context, s Signal) (Status, error) {
	if o.status == Closed {
		return Closed, nil
	}
	return o.answer(o.op.Signal(ctx, 0, s))
}

func (o *output) close(ctx context.Context) error {
	if o.status == Closed {
		return nil
	}
	o.status = Closed
	return o.op.Close(ctx, 0)
}

// answer keeps the status from going back: after Drain there is no More.
func (o *output) answer(s Status, err error) (Status, error) {
	o.status = max(o.status, s)
	return o.status, err
}

// onPort feeds one port of an operator with several, for producers that know
// only port 0.
type onPort struct {
	op   Operator
	port int
}

func (p onPort) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	return p.op.Push(ctx, p.port, b)
}

func (p onPort) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	return p.op.Signal(ctx, p.port, s)
}

func (p onPort) Close(ctx context.Context, _ int) error { return p.op.Close(ctx, p.port) }

// allRows is the selection of every row of a full batch.
var allRows = func() (rows [batch.MaxRows]uint16) {
	for i := range rows {
		rows[i] = uint16(i)
	}
	return rows
}()

// rowsOf are the physical rows of b that count.
func rowsOf(b *batch.Batch) []uint16 {
	if b.Sel != nil {
		return b.Sel
	}
	return allRows[:b.N]
}
