package graph

import (
	"context"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// limit passes the first n rows: of the whole query, and then returns Drain, which ends the
// query at its sources; or (perFlush) of each emitted result.
type limit struct {
	out      operators.Output
	n        int64
	perFlush bool
	left     int64
}

func newLimit(n *plan.Limit, down operators.Operator) operators.Operator {
	return &limit{out: operators.Output{To: down}, n: n.N, perFlush: n.PerFlush, left: n.N}
}

func (l *limit) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if l.left == 0 {
		return l.status(), nil
	}
	if int64(b.Len()) > l.left {
		b = b.View(batch.RowsOf(b)[:l.left])
		defer b.Release()
	}
	l.left -= int64(b.Len())
	_, err := l.out.Push(ctx, b)
	return l.status(), err
}

func (l *limit) status() operators.Status {
	if l.left == 0 && !l.perFlush {
		return max(l.out.Status, operators.Drain)
	}
	return l.out.Status
}

// Signal starts a new result at a Flush, also at that of a preview: a preview is cut like a
// final result.
func (l *limit) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Flush && l.perFlush {
		l.left = l.n
	}
	_, err := l.out.Signal(ctx, s)
	return l.status(), err
}

func (l *limit) Close(ctx context.Context, _ int) error { return l.out.Close(ctx) }
