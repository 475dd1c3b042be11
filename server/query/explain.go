package query

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// maxSites is the number of probe sites that EXPLAIN lists by name.
const maxSites = 20

// PlanColumn is the column of EXPLAIN's result.
var PlanColumn = answer.Text("plan")

// Analysis returns the measurements of a query that has ended.
func (q *Query) Analysis(res *Result) *answer.Table {
	sum := res.Summary()
	_ = res.Close()
	rel := answer.NewTable(PlanColumn)
	rel.AddLines(q.Explain())
	acquired := fmt.Sprintf("%d tuples acquired", q.Tally.Acquired.Load())
	if len(q.collector.sources) > 0 {
		acquired += fmt.Sprintf(", %d partial rows from the kernel", q.Tally.Groups.Load())
	}
	rel.AddLines(fmt.Sprintf("ran %s: %s, %d rows given", sum.Elapsed.Round(time.Millisecond), acquired, sum.Rows))
	for _, l := range sum.Losses {
		rel.AddLines(fmt.Sprintf("lost %d: %s", l.N, l.Cause))
	}
	for _, note := range sum.Notes {
		rel.AddLines(note)
	}
	if len(sum.Losses) == 0 && !sum.Sample {
		rel.AddLines("complete: nothing was lost")
	}
	for _, l := range sum.Counts {
		rel.AddLines(fmt.Sprintf("%d %s", l.N, l.Cause))
	}
	rel.Notices = q.Notices()
	return rel
}

// Explained is EXPLAIN ANALYZE of a divided query: first come the rows for the
// client's fragment, then the rows with the measurements.
type Explained struct {
	*Result
	said atomic.Pointer[answer.Table] // the measurements, once the query has ended
}

func (r *Explained) Columns() []wire.Column { return []wire.Column{PlanColumn} }

// Info implements wire.Result.
func (r *Explained) Info() wire.Info {
	info := r.Result.Info()
	info.Fragment.Columns, info.Fragment.Measured = r.Columns(), true
	return info
}

func (r *Explained) Next(ctx context.Context) (wire.Event, error) {
	if r.said.Load() == nil {
		ev, err := r.Result.Next(ctx)
		if err != io.EOF {
			return ev, err
		}
		r.said.Store(r.Query.Analysis(r.Result))
	}
	return r.said.Load().Next(ctx)
}

func (r *Explained) Summary() wire.Summary {
	if said := r.said.Load(); said != nil {
		return said.Summary()
	}
	return r.Result.Summary()
}

// Explain prints the plan: a line for each operator, with its site and, after a
// run, its measurements; below an acquisition, its probe sites.
func (q *Query) Explain() string {
	var b strings.Builder
	b.WriteString(q.explainOperators())
	q.Gating.Explain(&b)
	if q.Placement != nil {
		q.Placement.Explain(&b)
	}
	if q.Plan.For > 0 {
		fmt.Fprintf(&b, "for %s\n", plan.FormatDuration(int64(q.Plan.For)))
	}
	if len(q.Plan.Fired) > 0 {
		fmt.Fprintf(&b, "rules: %s\n", strings.Join(q.Plan.Fired, ", "))
	}
	return b.String()
}

// explainOperators prints the operators and the probe sites. It can be called at any time.
func (q *Query) explainOperators() string {
	var b strings.Builder
	stats := map[plan.Node]*graph.Stats{}
	if q.Life.Started() {
		for _, st := range q.Graph.Stats {
			stats[st.Node] = st
		}
	}
	var walk func(n plan.Node, depth int)
	walk = func(n plan.Node, depth int) {
		indent := strings.Repeat("  ", depth)
		fmt.Fprintf(&b, "%s%s  (%s", indent, n.Describe(), q.Site(n))
		if a, ok := n.(*plan.Aggregate); ok {
			if leaf, _ := a.FirstStage(); leaf != nil {
				b.WriteString(", merges partial rows")
			}
		}
		if st := stats[n]; st != nil {
			fmt.Fprintf(&b, ", rows %d -> %d, %s", st.RowsIn.Load(), st.RowsOut.Load(), time.Duration(st.Nanos.Load()).Round(time.Microsecond))
		}
		b.WriteString(")\n")
		if a, ok := n.(*plan.Acquire); ok {
			q.explainSites(&b, a, indent+"  ")
		}
		for _, in := range n.Inputs() {
			walk(in, depth+1)
		}
	}
	walk(q.Plan.Root, 0)
	return b.String()
}

// Site returns where a node is executed. Probes, with the filter and the
// aggregate pushed down to them, run in the kernel.
func (q *Query) Site(n plan.Node) string {
	if q.Placement != nil {
		if at := q.Placement.ExecutesAt(q.Plan.Root, n); at != "" {
			return at
		}
	}
	for _, f := range q.Feeds {
		if f.Spec == n && f.Attaches() {
			return "kernel"
		}
	}
	return "server"
}

func (q *Query) explainSites(b *strings.Builder, a *plan.Acquire, indent string) {
	for _, f := range q.Feeds {
		if f.Spec != a {
			continue
		}
		info := f.Source.Info()
		sites := info.Sites
		for i, s := range sites {
			if i == maxSites {
				fmt.Fprintf(b, "%s... and %d more\n", indent, len(sites)-maxSites)
				break
			}
			fmt.Fprintf(b, "%s%s %s", indent, s.Provider, s.Function)
			if s.Module != "" {
				fmt.Fprintf(b, " in %s", s.Module)
			}
			if s.Address != 0 {
				fmt.Fprintf(b, " at %#x", s.Address)
			}
			if s.Behind != 0 {
				fmt.Fprintf(b, " (entry+%d)", s.Behind)
			}
			fmt.Fprintf(b, ": %s", s.Kind)
			if s.Method != "" {
				fmt.Fprintf(b, ", %s", s.Method)
			}
			if s.CostNs > 0 {
				fmt.Fprintf(b, ", about %s an event", plan.FormatDuration(int64(s.CostNs)))
				if s.Estimated {
					b.WriteString(" (estimated)")
				}
			}
			b.WriteString("\n")
		}
		if f.Part != nil {
			if ids := f.Part.Others(); len(ids) > 0 {
				fmt.Fprintf(b, "%sshared with query %s\n", indent, answer.FormatIDs(ids))
			}
		}
		if f.Aggregates() {
			fmt.Fprintf(b, "%saggregate %s: %s  (kernel)\n", indent, f.Spec.Partial, info.Aggregation)
		}
		for _, line := range info.Strata {
			fmt.Fprintf(b, "%s%s\n", indent, line)
		}
		left := info.Residual
		if a.Filter != nil && left != a.Filter {
			fmt.Fprintf(b, "%sfilter %s  (kernel)\n", indent, a.Filter)
		}
		if left != nil {
			at := "server"
			if p := q.Placement; p != nil && p.Tested && p.Base == a {
				at = p.LowerSite()
			}
			fmt.Fprintf(b, "%sfilter %s  (%s)\n", indent, left, at)
		}
	}
}
