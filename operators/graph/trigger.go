package graph

import (
	"context"
	"sync/atomic"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// Actor executes the actions of a trigger. Its methods are called in the order of the
// tuples, and must not block.
type Actor interface {
	// Activate is called for row b[row], which satisfies the condition as the n-th tuple to
	// do so. b is the caller's.
	Activate(n int64, b *batch.Batch, row int)
	// Deactivate is called for row b[row], the first that fails the condition after one that
	// satisfied it. b is the caller's.
	Deactivate(b *batch.Batch, row int)
	// Lost is called when n tuples, or the events they are made of, were lost for a cause.
	Lost(cause string, n uint64)
}

// Trigger is the last operator of a trigger's plan (EndoScope, section 4.3.3). Its rows are
// the tuples that the trigger selects; a column may hold whether a tuple satisfies the
// condition. NULL does not.
type Trigger struct {
	condition   int
	actor       Actor
	satisfied   bool // by the last tuple
	activations atomic.Int64
}

// NewTrigger returns a trigger whose condition is this column; -1: every tuple satisfies
// it.
func NewTrigger(condition int, a Actor) *Trigger {
	return &Trigger{condition: condition, actor: a}
}

// Activations returns the number of tuples that satisfied the condition. It is safe for
// concurrent use.
func (t *Trigger) Activations() int64 { return t.activations.Load() }

// Push implements [operators.Operator].
func (t *Trigger) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for _, r := range batch.RowsOf(b) {
		row := int(r)
		if t.condition >= 0 {
			if c := &b.Cols[t.condition]; !c.Bool[row] || c.Nulls.Get(row) {
				if t.satisfied {
					t.satisfied = false
					t.actor.Deactivate(b, row)
				}
				continue
			}
		}
		t.satisfied = true
		t.actor.Activate(t.activations.Add(1), b, row)
	}
	return operators.More, nil
}

// Signal implements [operators.Operator]: of the signals only losses matter to a trigger.
func (t *Trigger) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		t.actor.Lost(s.Cause, s.N)
	}
	return operators.More, nil
}

// Close implements [operators.Operator].
func (t *Trigger) Close(context.Context, int) error { return nil }
