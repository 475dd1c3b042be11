package trigger

import (
	"context"
	"sync/atomic"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// publisher is the last operator of an action's query. It publishes the rows on
// the trigger's stream.
type publisher struct {
	stream *Stream
	tally  *flow.Tally  // of the query
	number atomic.Int64 // number of the activation that the rows belong to
	action string
	time   int // index of the time column; -1: none
	row    func([]byte, *batch.Batch, int) []byte
}

// publish has a query's rows published as those of an action.
func publish(q *query.Query, stream *Stream, action string) *publisher {
	sch := q.Plan.Root.Schema()
	names := make([]string, len(sch.Fields))
	for i, f := range sch.Fields {
		names[i] = f.Name
	}
	p := &publisher{stream: stream, tally: q.Tally, action: action, time: -1, row: graph.JSON(names)}
	if t := sch.Time; t >= 0 && sch.Fields[t].Type == types.Timestamp {
		p.time = t
	}
	q.Last = p
	return p
}

// Push implements operators.Operator.
func (p *publisher) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	p.tally.Rows.Add(uint64(b.Len()))
	if !p.stream.hasListeners(b.Len()) {
		return operators.More, nil
	}
	rows := make([]streamRow, b.Len())
	now, n := clock.Now(), p.number.Load()
	for i := range rows {
		row := b.Row(i)
		r := streamRow{at: now, activation: n, action: p.action, row: string(p.row(nil, b, row))}
		if p.time >= 0 && !b.Cols[p.time].Nulls.Get(row) {
			r.at = b.Cols[p.time].Int[row]
		}
		rows[i] = r
	}
	p.stream.publish(rows...)
	return operators.More, nil
}

// Signal implements operators.Operator.
func (p *publisher) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		p.tally.AddLost(s.Cause, s.N)
	}
	return operators.More, nil
}

// Close implements operators.Operator.
func (p *publisher) Close(context.Context, int) error { return nil }
