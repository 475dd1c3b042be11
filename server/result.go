package server

import (
	"context"

	"endoscope/probes/clock"
	"endoscope/server/wire"
)

// queryResult is the client's view of a running query.
type queryResult struct {
	q       *query
	forget  func() // takes the query off the engine's list
	notices []string
	columns []wire.Column
}

func (r *queryResult) Columns() []wire.Column { return r.columns }

func (r *queryResult) Message() string { return "" }

// Fragment implements wire.Fragmented.
func (r *queryResult) Fragment() *wire.Fragment {
	if r.q.placement == nil {
		return nil
	}
	f := r.q.placement.ForClient(clock.Now())
	f.Columns = r.columns
	return f
}

func (r *queryResult) Next(ctx context.Context) (wire.Event, error) {
	if len(r.notices) > 0 {
		text := r.notices[0]
		r.notices = r.notices[1:]
		return wire.Event{Kind: wire.Notice, Text: text}, nil
	}
	return r.q.out.Next(ctx)
}

func (r *queryResult) Stop() { r.q.end() }

// Close abandons the query if it still runs. Nothing of it is attached when
// Close returns.
func (r *queryResult) Close() error {
	r.q.cancel()
	<-r.q.done
	r.q.out.Discard()
	r.forget()
	return nil
}

func (r *queryResult) Summary() wire.Summary {
	t := r.q.t
	return wire.Summary{Rows: t.Rows.Load(), Elapsed: r.q.out.Lasted(), Losses: t.Losses(), Counts: t.Counts(), Notes: t.Notes()}
}
