package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// limit drops some rows and passes the next n: of the whole query, and then returns Drain,
// which ends the query at its sources; or (perFlush) of each emitted result.
type limit struct {
	out         operators.Output
	of          *plan.Limit
	left, skips int64 // rows to pass, and rows to drop before them
}

func newLimit(n *plan.Limit, down operators.Operator) operators.Operator {
	return &limit{out: operators.Output{To: down}, of: n, left: n.N, skips: n.Skip}
}

func (l *limit) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if l.left == 0 {
		return l.status(), nil
	}
	n := int64(b.Len())
	first := min(n, l.skips)
	l.skips -= first
	end := min(n, first+min(n, l.left))
	if first == end {
		return l.status(), nil
	}
	if end-first < n {
		b = b.View(batch.RowsOf(b)[first:end])
		defer b.Release()
	}
	l.left -= int64(b.Len())
	_, err := l.out.Push(ctx, b)
	return l.status(), err
}

func (l *limit) status() operators.Status {
	if l.left == 0 && !l.of.PerFlush {
		return max(l.out.Status, operators.Drain)
	}
	return l.out.Status
}

// Signal starts a new result at a Flush, also at that of a preview: a preview is cut like a
// final result.
func (l *limit) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Flush && l.of.PerFlush {
		l.left, l.skips = l.of.N, l.of.Skip
	}
	_, err := l.out.Signal(ctx, s)
	return l.status(), err
}

func (l *limit) Close(ctx context.Context, _ int) error { return l.out.Close(ctx) }
