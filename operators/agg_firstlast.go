package operators

import (
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

func newFirstLast(arg types.Type, last bool) accumulator {
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
// time. Of equal times FIRST has the smallest value and LAST the largest, so that
// the order in which rows and states arrive does not matter. Without a time column
// it is what decides.
type firstLast[T any] struct {
	value   []T
	when    []int64
	seen    []bool
	last    bool
	untimed bool // rows have no time
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

func (a *firstLast[T]) update(in *folding) {
	var x []T
	x, a.scratch = a.layout.read(in.arg, in.rows, a.scratch)
	times := in.times
	if times == nil {
		a.updateUntimed(in, x)
		return
	}
	if a.last {
		for _, r := range in.rows {
			g, t := in.groups[r], times[r]
			if !a.seen[g] || t > a.when[g] || t == a.when[g] && a.layout.compare(x[r], a.value[g]) > 0 {
				a.value[g], a.when[g], a.seen[g] = x[r], t, true
			}
		}
		return
	}
	for _, r := range in.rows {
		g, t := in.groups[r], times[r]
		if !a.seen[g] || t < a.when[g] || t == a.when[g] && a.layout.compare(x[r], a.value[g]) < 0 {
			a.value[g], a.when[g], a.seen[g] = x[r], t, true
		}
	}
}

// updateUntimed folds rows by their order.
func (a *firstLast[T]) updateUntimed(in *folding, x []T) {
	a.untimed = true
	for _, r := range in.rows {
		if g := in.groups[r]; a.last || !a.seen[g] {
			a.value[g], a.seen[g] = x[r], true
		}
	}
}

// merge takes a state as the row that it was made of, with the time of that.
func (a *firstLast[T]) merge(in *folding, state []batch.Column) error {
	if in.times, in.arg = state[0].Int, &state[1]; len(in.rows) > 0 && state[0].Nulls.Get(int(in.rows[0])) {
		in.times = nil
	}
	a.update(in)
	return nil
}

func (a *firstLast[T]) states(groups []uint32, out []batch.Column) {
	for i, g := range groups {
		if a.untimed {
			out[0].Nulls.Set(i)
		}
		out[0].Int = append(out[0].Int, a.when[g])
		a.layout.append(&out[1], a.value[g])
		out[2].Int = append(out[2].Int, one(a.seen[g]))
	}
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
