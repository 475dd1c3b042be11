package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

func newFirstLast(arg types.Type, last bool) fold.Accumulator {
	switch arg.Physical() {
	case types.PhysBool:
		return &firstLast[bool]{last: last, layout: booleans}
	case types.PhysFloat:
		return &firstLast[float64]{last: last, layout: floats}
	case types.PhysCode:
		return &firstLast[string]{last: last, layout: texts}
	case types.PhysAny:
		return &firstLast[any]{last: last, layout: anys}
	}
	return &firstLast[int64]{last: last, layout: integers}
}

// firstLast is FIRST and LAST: the value with the earliest or latest event
// time. Of equal times, and without a time column, the order of arrival
// decides.
type firstLast[T any] struct {
	value   []T
	when    []int64
	seen    []bool
	last    bool
	layout  layout[T]
	scratch []T
}

func (a *firstLast[T]) Grow(n int) {
	a.value, a.when, a.seen = rowstore.Extended(a.value, n), rowstore.Extended(a.when, n), rowstore.Extended(a.seen, n)
}

func (a *firstLast[T]) Reset() {
	clear(a.value)
	a.value, a.when, a.seen = a.value[:0], a.when[:0], a.seen[:0]
}

// arrival stands for the times of rows that have none: all are equal.
var arrival [batch.MaxRows]int64

func (a *firstLast[T]) Update(in *fold.Input) {
	var x []T
	x, a.scratch = a.layout.read(in.Arg, in.Rows, a.scratch)
	times := in.Times
	if times == nil {
		times = arrival[:]
	}
	if a.last {
		for _, r := range in.Rows {
			if g := in.Groups[r]; !a.seen[g] || times[r] >= a.when[g] {
				a.value[g], a.when[g], a.seen[g] = x[r], times[r], true
			}
		}
		return
	}
	for _, r := range in.Rows {
		if g := in.Groups[r]; !a.seen[g] || times[r] < a.when[g] {
			a.value[g], a.when[g], a.seen[g] = x[r], times[r], true
		}
	}
}

// merge takes a state as the row that it was made of, with the time of that.
// Values are integers (plan.StateFields).
func (a *firstLast[T]) merge(in *fold.Input, state []batch.Column) {
	in.Times, in.Arg = state[0].Int, &state[1]
	a.Update(in)
}

func (a *firstLast[T]) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if !a.seen[g] {
			out.Nulls.Set(i)
		}
		a.layout.append(out, a.value[g])
	}
	return nil
}

// newFirstLastTime makes FIRST_TIME and LAST_TIME: the event times of what FIRST and
// LAST give.
func newFirstLastTime(arg types.Type, last bool) fold.Accumulator {
	switch acc := newFirstLast(arg, last).(type) {
	case *firstLast[int64]: // it takes states, too, where the other one does
		return &firstLastTime[int64]{*acc}
	case *firstLast[bool]:
		return &firstLastTime[bool]{*acc}
	case *firstLast[float64]:
		return &firstLastTime[float64]{*acc}
	case *firstLast[string]:
		return &firstLastTime[string]{*acc}
	case *firstLast[any]:
		return &firstLastTime[any]{*acc}
	}
	return nil
}

type firstLastTime[T any] struct{ firstLast[T] }

func (a *firstLastTime[T]) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if !a.seen[g] {
			out.Nulls.Set(i)
		}
		out.Int = append(out.Int, a.when[g])
	}
	return nil
}

// firstLastBy is FIRST_BY(x, t) and LAST_BY(x, t): FIRST and LAST of rows whose time is
// t. A row without one has no value.
type firstLastBy struct {
	fold.Accumulator
	rows []uint16 // scratch: those that have a time
}

func (a *firstLastBy) Update(in *fold.Input) {
	t := in.More[0]
	by := *in
	by.Times = t.Int
	if len(t.Nulls) > 0 && t.Nulls.Any() {
		a.rows = a.rows[:0]
		for _, r := range in.Rows {
			if !t.Nulls.Get(int(r)) {
				a.rows = append(a.rows, r)
			}
		}
		by.Rows = a.rows
	}
	a.Accumulator.Update(&by)
}
