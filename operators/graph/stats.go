package graph

import (
	"context"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// Stats are the statistics of one plan node. They may be read while the query runs.
type Stats struct {
	Node                plan.Node
	RowsIn, BatchesIn   atomic.Uint64
	RowsOut, BatchesOut atomic.Uint64
	Nanos               atomic.Int64 // spent in the node itself, without its consumers
}

// measured counts what passes between two nodes; operators themselves count nothing. The
// time of a call is added to the callee and subtracted from the caller, so that each node
// has its own time.
type measured struct {
	op       operators.Operator
	from, to *Stats // nil: outside the plan
}

func (m measured) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	n := uint64(b.Len())
	if m.from != nil {
		m.from.RowsOut.Add(n)
		m.from.BatchesOut.Add(1)
	}
	if m.to != nil {
		m.to.RowsIn.Add(n)
		m.to.BatchesIn.Add(1)
	}
	defer m.charge(time.Now())
	return m.op.Push(ctx, port, b)
}

func (m measured) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	defer m.charge(time.Now())
	return m.op.Signal(ctx, port, s)
}

func (m measured) Close(ctx context.Context, port int) error {
	defer m.charge(time.Now())
	return m.op.Close(ctx, port)
}

func (m measured) charge(start time.Time) {
	d := int64(time.Since(start))
	if m.from != nil {
		m.from.Nanos.Add(-d)
	}
	if m.to != nil {
		m.to.Nanos.Add(d)
	}
}
