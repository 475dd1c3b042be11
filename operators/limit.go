package operators

import (
	"context"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// limit passes the first n rows: of all, and then answers Drain, which ends
// the query at its sources; or (perFlush) of each emitted result.
type limit struct {
	out      output
	n        int64
	perFlush bool
	left     int64
}

func newLimit(n *plan.Limit, down Operator) Operator {
	return &limit{out: output{op: down}, n: n.N, perFlush: n.PerFlush, left: n.N}
}

func (l *limit) Push(ctx context.Context, _ int, b *batch.Batch) (Status, error) {
	if l.left == 0 {
		return l.status(), nil
	}
	if int64(b.Len()) > l.left {
		b = b.View(rowsOf(b)[:l.left])
		defer b.Release()
	}
	l.left -= int64(b.Len())
	_, err := l.out.push(ctx, b)
	return l.status(), err
}

func (l *limit) status() Status {
	if l.left == 0 && !l.perFlush {
		return max(l.out.status, Drain)
	}
	return l.out.status
}

// Signal starts a new result at a Flush, also at that of a preview: what is
// previewed is cut like what is final.
func (l *limit) Signal(ctx context.Context, _ int, s Signal) (Status, error) {
	if s.Kind == Flush && l.perFlush {
		l.left = l.n
	}
	_, err := l.out.signal(ctx, s)
	return l.status(), err
}

func (l *limit) Close(ctx context.Context, _ int) error { return l.out.close(ctx) }
