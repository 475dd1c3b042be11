package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// tee forwards everything to several consumers: the uses of a sub-plan that occurs more
// than once and is executed once. Batches are immutable, so all consumers share them. It
// accepts rows as long as one consumer does.
type tee struct {
	outs []operators.Output
}

func newTee(consumers []operators.Operator) operators.Operator {
	t := &tee{outs: make([]operators.Output, len(consumers))}
	for i, c := range consumers {
		t.outs[i].To = c
	}
	return t
}

func (t *tee) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	return t.each(func(o *operators.Output) (operators.Status, error) { return o.Push(ctx, b) })
}

// Signal forwards signals. A loss must be counted once: all consumers receive a Gap, but
// only the first that still accepts rows receives its number.
func (t *tee) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return t.each(func(o *operators.Output) (operators.Status, error) {
		wanted := o.Status != operators.Closed
		st, err := o.Signal(ctx, s)
		if s.Kind == operators.Gap && wanted {
			s.N = 0
		}
		return st, err
	})
}

func (t *tee) each(f func(*operators.Output) (operators.Status, error)) (operators.Status, error) {
	all := operators.Closed
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
		if err := t.outs[i].Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
