package query

import (
	"context"

	"endoscope/probes/clock"
	"endoscope/server/wire"
)

// Result is the client's view of a running query.
type Result struct {
	Query   *Query
	Forget  func() // removes the query from the engine's list
	Notices []string
	Header  []wire.Column
	Shared  *wire.Share // of a query over several hosts; nil: another query
}

func (r *Result) Columns() []wire.Column { return r.Header }

func (r *Result) Message() string { return "" }

// Info implements wire.Result.
func (r *Result) Info() wire.Info {
	info := wire.Info{StartsOver: startsOver(r.Query.Plan.Root, true), Plan: r.Query.explainOperators}
	if r.Query.Placement != nil {
		info.Fragment = r.Query.Placement.ForClient(clock.Now())
		info.Fragment.Columns = r.Header
	}
	if r.Shared != nil {
		s := *r.Shared
		s.Running = clock.Now() - r.Query.began
		info.Share = &s
	}
	return info
}

func (r *Result) Next(ctx context.Context) (wire.Event, error) {
	if len(r.Notices) > 0 {
		text := r.Notices[0]
		r.Notices = r.Notices[1:]
		return wire.Event{Kind: wire.Notice, Text: text}, nil
	}
	return r.Query.out.Next(ctx)
}

func (r *Result) Stop() { r.Query.End() }

// Close abandons the query if it still runs. When it returns, nothing of the
// query is attached.
func (r *Result) Close() error {
	r.Query.Cancel()
	<-r.Query.Done
	r.Query.out.Discard()
	r.Forget()
	return nil
}

func (r *Result) Summary() wire.Summary {
	t := r.Query.Tally
	return wire.Summary{Rows: t.Rows.Load(), Elapsed: r.Query.out.Elapsed(), Losses: t.Losses(), Counts: t.Counts(), Notes: t.Notes(), Cost: r.Query.Cost(), Overhead: r.Query.Overhead(), Sample: r.Query.samples()}
}
