package operators

import (
	"context"

	"endoscope/operators/batch"
)

// tee gives everything to several consumers: the uses of a sub-plan that
// occurs more than once and is executed once. Batches are immutable, so all
// consumers share them. It wants rows as long as one of them does.
type tee struct {
	outs []output
}

func newTee(consumers []Operator) Operator {
	t := &tee{outs: make([]output, len(consumers))}
	for i, c := range consumers {
		t.outs[i].op = c
	}
	return t
}

func (t *tee) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	return t.each(func(o *output) (Status, error) { return o.push(ctx, b) })
}

// Signal passes signals on. What was lost was lost once: all consumers hear of a
// Gap, and the first that still wants anything has its number.
func (t *tee) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	return t.each(func(o *output) (Status, error) {
		wanted := o.status != Closed
		st, err := o.signal(ctx, s)
		if s.Kind == Gap && wanted {
			s.N = 0
		}
		return st, err
	})
}

func (t *tee) each(f func(*output) (Status, error)) (Status, error) {
	all := Closed
	for i := range t.outs {
		s, err := f(&t.outs[i])
		if err != nil {
			return s, err
		}
		all = min(all, s)
	}
	return all, nil
}

func (t *tee) Close(ctx context.Context, _ int) error {
	for i := range t.outs {
		if err := t.outs[i].close(ctx); err != nil {
			return err
		}
	}
	return nil
}
