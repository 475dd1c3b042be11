package graph

import (
	"context"
	"sync/atomic"

	"endoscope/operators"
	"endoscope/operators/batch"
)

// Actor does what a trigger is for. Its methods are called in the order of the
// tuples, and must not block.
type Actor interface {
	// Activate: a tuple, row of b, satisfies the condition, as the n-th one. b
	// is the caller's.
	Activate(n int64, b *batch.Batch, row int)
	// Relent: a tuple, row of b, fails the condition, the first one after one that
	// satisfied it. b is the caller's.
	Relent(b *batch.Batch, row int)
	// Lost: n tuples, or what they would have been made of, were lost on the way,
	// for a cause.
	Lost(cause string, n uint64)
}

// Trigger is the last operator of a trigger's plan (EndoScope, section 4.3.3).
// Its rows are the tuples that the trigger selects; one of their columns may say
// which satisfy the condition. NULL is not satisfied.
type Trigger struct {
	condition   int
	actor       Actor
	satisfied   bool // by the last tuple
	activations atomic.Int64
}

// NewTrigger returns a trigger whose condition is the column of that number; -1:
// every tuple satisfies it.
func NewTrigger(condition int, a Actor) *Trigger {
	return &Trigger{condition: condition, actor: a}
}

// Activations is how many tuples satisfied the condition so far. Safe for
// concurrent use.
func (t *Trigger) Activations() int64 { return t.activations.Load() }

// Push implements Operator.
func (t *Trigger) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for _, r := range batch.RowsOf(b) {
		row := int(r)
		if t.condition >= 0 {
			if c := &b.Cols[t.condition]; !c.Bool[row] || c.Nulls.Get(row) {
				if t.satisfied {
					t.satisfied = false
					t.actor.Relent(b, row)
				}
				continue
			}
		}
		t.satisfied = true
		t.actor.Activate(t.activations.Add(1), b, row)
	}
	return operators.More, nil
}

// Signal implements Operator: a trigger acts on tuples alone.
func (t *Trigger) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		t.actor.Lost(s.Cause, s.N)
	}
	return operators.More, nil
}

// Close implements Operator.
func (t *Trigger) Close(context.Context, int) error { return nil }
