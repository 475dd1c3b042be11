package operators

import "endoscope/operators/batch"

func newFirstLast(arg batch.Type, last bool) accumulator {
	switch arg.Physical() {
	case batch.PhysBool:
		return &firstLast[bool]{last: last, layout: booleans}
	case batch.PhysFloat:
		return &firstLast[float64]{last: last, layout: floats}
	case batch.PhysCode:
		return &firstLast[string]{last: last, layout: texts}
	case batch.PhysAny:
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

func (a *firstLast[T]) grow(n int) {
	a.value, a.when, a.seen = extended(a.value, n), extended(a.when, n), extended(a.seen, n)
}

func (a *firstLast[T]) reset() {
	clear(a.value)
	a.value, a.when, a.seen = a.value[:0], a.when[:0], a.seen[:0]
}

// arrival stands for the times of rows that have none: all are equal.
var arrival [batch.MaxRows]int64

func (a *firstLast[T]) update(in *folding) {
	var x []T
	x, a.scratch = a.layout.read(in.arg, in.rows, a.scratch)
	times := in.times
	if times == nil {
		times = arrival[:]
	}
	if a.last {
		for _, r := range in.rows {
			if g := in.groups[r]; !a.seen[g] || times[r] >= a.when[g] {
				a.value[g], a.when[g], a.seen[g] = x[r], times[r], true
			}
		}
		return
	}
	for _, r := range in.rows {
		if g := in.groups[r]; !a.seen[g] || times[r] < a.when[g] {
			a.value[g], a.when[g], a.seen[g] = x[r], times[r], true
		}
	}
}

// merge takes a state as the row that it was made of, with the time of that.
// Values are integers (plan.StateFields).
func (a *firstLast[T]) merge(in *folding, state []batch.Column) {
	in.times, in.arg = state[0].Int, &state[1]
	a.update(in)
}

func (a *firstLast[T]) output(groups []uint32, out *batch.Column, _ instant) error {
	for i, g := range groups {
		if !a.seen[g] {
			out.Nulls.Set(i)
		}
		a.layout.append(out, a.value[g])
	}
	return nil
}
