package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newFirstLast(arg, f.Fn == "last"), nil
	}, "first", "last")
}

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
	if arg.Unsigned() {
		return &firstLast[uint64]{last: last, layout: unsigned}
	}
	return &firstLast[int64]{last: last, layout: integers}
}

// firstLast is FIRST and LAST: the value with the earliest or latest event time.
// Of equal times FIRST returns the smallest value and LAST the largest, so that
// the result does not depend on the order in which rows and states arrive. Without
// a time column that order decides.
type firstLast[T any] struct {
	value   []T
	when    []int64
	seen    []bool
	last    bool
	untimed bool // rows have no time
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

func (a *firstLast[T]) Update(in *fold.Input) {
	var x []T
	x, a.scratch = a.layout.read(in.Arg, in.Rows, a.scratch)
	times := in.Times
	if times == nil {
		a.updateUntimed(in, x)
		return
	}
	if a.last {
		for _, r := range in.Rows {
			g, t := in.Groups[r], times[r]
			if !a.seen[g] || t > a.when[g] || t == a.when[g] && a.layout.compare(x[r], a.value[g]) > 0 {
				a.value[g], a.when[g], a.seen[g] = x[r], t, true
			}
		}
		return
	}
	for _, r := range in.Rows {
		g, t := in.Groups[r], times[r]
		if !a.seen[g] || t < a.when[g] || t == a.when[g] && a.layout.compare(x[r], a.value[g]) < 0 {
			a.value[g], a.when[g], a.seen[g] = x[r], t, true
		}
	}
}

// updateUntimed folds rows by their order.
func (a *firstLast[T]) updateUntimed(in *fold.Input, x []T) {
	a.untimed = true
	for _, r := range in.Rows {
		if g := in.Groups[r]; a.last || !a.seen[g] {
			a.value[g], a.seen[g] = x[r], true
		}
	}
}

// Merge adds a state like the row that it was made from, with that row's time.
func (a *firstLast[T]) Merge(in *fold.Input, state []batch.Column) error {
	if in.Times, in.Arg = state[0].Int, &state[1]; len(in.Rows) > 0 && state[0].Nulls.Get(int(in.Rows[0])) {
		in.Times = nil
	}
	a.Update(in)
	return nil
}

func (a *firstLast[T]) States(groups []uint32, out []batch.Column) {
	for i, g := range groups {
		if a.untimed {
			out[0].Nulls.Set(i)
		}
		out[0].Int = append(out[0].Int, a.when[g])
		a.layout.append(&out[1], a.value[g])
		out[2].Int = append(out[2].Int, one(a.seen[g]))
	}
}

// When implements fold.Timed.
func (a *firstLast[T]) When(g uint32) (t int64, ok bool) { return a.when[g], a.seen[g] }

func (a *firstLast[T]) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if !a.seen[g] {
			out.Nulls.Set(i)
		}
		a.layout.append(out, a.value[g])
	}
	return nil
}
