package query

import (
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/server/grant"
)

// Charge charges a query to the account of its user.
func (q *Query) Charge() (err error) {
	if q.Grant == nil || q.discharge != nil {
		return nil
	}
	q.discharge, err = q.Grant.Uses().Begin(q.demand())
	return err
}

// ceiling returns what a source with a budget may take now, by the limit of the query's user.
func (q *Query) ceiling() float64 {
	if share, ok := q.Grant.Uses().Ceiling(); ok {
		return share
	}
	return 1
}

// demand returns the resources of a query: the functions that it probes, and
// the most that its queue and its operators may hold.
func (q *Query) demand() (d grant.Demand) {
	columns := 0
	for _, f := range q.Feeds {
		d.Budget = d.Budget || f.Spec.Budget != nil
		for _, site := range f.Source.Info().Sites {
			if site.Address != 0 {
				d.Probes++
			}
		}
		columns = max(columns, len(f.Spec.Out.Fields))
	}
	const bytesPerValue = 16
	d.Memory = int64(q.queue.Limit) * int64(batch.RowsFor(columns)*columns) * bytesPerValue
	joins, encoders := false, false
	plan.TransformNodes(q.Plan.Root, func(n plan.Node) plan.Node {
		switch n := n.(type) {
		case *plan.Join:
			joins = true
		case *plan.Aggregate:
			encoders = encoders || slices.ContainsFunc(n.Aggs, func(a plan.Agg) bool {
				f := plan.FindAgg(a.Fn)
				return f != nil && f.Encoder != nil
			})
		}
		return n
	})
	if joins {
		d.Memory += q.JoinMemory
	}
	if encoders {
		d.Memory += q.EncoderBudget
	}
	return d
}
