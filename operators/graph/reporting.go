package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// reporting drops the rows of a source while Suspend is in effect. It is placed between a
// source and the operators, so that unreported rows have no effect at all. Sources tracked
// by CONSISTENT have none: there the keeper decides.
type reporting struct {
	operators.Operator
	thread int // the column thread_name; -1: not acquired
	off    bool
	quiet  map[string]bool // threads by name
	rows   []uint16
}

// reportingOf puts a reporting operator in front of a leaf.
func reportingOf(l Leaf) Leaf {
	r := &reporting{Operator: l.Op, thread: plan.ThreadColumn(l.Acquire), quiet: map[string]bool{}}
	l.Op = r
	if l.Partial != nil {
		l.Partial = reportingPartial{l.Partial, r}
	}
	return l
}

func (r *reporting) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	switch {
	case s.Kind != operators.Suspend && s.Kind != operators.Resume:
		return r.Operator.Signal(ctx, port, s)
	case s.Thread == "":
		r.off = s.Kind == operators.Suspend
	case s.Kind == operators.Suspend:
		r.quiet[s.Thread] = true
	default:
		delete(r.quiet, s.Thread)
	}
	return operators.More, nil
}

func (r *reporting) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	switch {
	case r.off:
		return operators.More, nil
	case len(r.quiet) == 0 || r.thread < 0:
		return r.Operator.Push(ctx, port, b)
	}
	names := &b.Cols[r.thread]
	r.rows = r.rows[:0]
	for _, row := range batch.RowsOf(b) {
		if v := names.Value(int(row)); v.IsNull || !r.quiet[v.S] {
			r.rows = append(r.rows, row)
		}
	}
	switch len(r.rows) {
	case 0:
		return operators.More, nil
	case b.Len():
		return r.Operator.Push(ctx, port, b)
	}
	v := b.View(r.rows)
	defer v.Release()
	return r.Operator.Push(ctx, port, v)
}

// reportingPartial is the reporting operator for partial rows. These cannot be suspended
// per thread, only altogether.
type reportingPartial struct {
	operators.Operator
	of *reporting
}

func (r reportingPartial) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	if r.of.off {
		return operators.More, nil
	}
	return r.Operator.Push(ctx, port, b)
}
