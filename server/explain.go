package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"endoscope/operators/graph"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// analyzeFor is how long EXPLAIN ANALYZE runs a query that has no FOR.
const analyzeFor = 5 * time.Second

// maxSites is how many probe sites EXPLAIN lists by name.
const maxSites = 20

// planColumn is the one that EXPLAIN gives.
var planColumn = answer.Text("plan")

// explain answers EXPLAIN [ANALYZE] query: the plan, where each operator runs,
// what would be attached, and which rules fired; with ANALYZE the query is run
// and what was measured stands beside.
func (s *session) explain(ctx context.Context, path wire.Path, st *parser.Explain, src string, args []types.Value) (wire.Result, error) {
	switch of := st.Of.(type) {
	case *parser.CreateTrigger:
		return s.explainTrigger(ctx, of, src)
	case *parser.CreateModel:
		return s.explainModel(ctx, of, src)
	}
	p, err := planner.Plan(st.Of.(*parser.Query), src, s.env(args...))
	if err != nil {
		return nil, err
	}
	if !st.Analyze {
		if p, err = s.permitted(p, src); err != nil {
			return nil, err
		}
		rel := answer.NewTable(planColumn)
		return rel, s.explainPlan(ctx, path, rel, p, src, "", nil)
	}
	if p.For == 0 || p.For > analyzeFor {
		c := *p
		c.For = analyzeFor
		p = &c
	}
	q, err := s.startQuery(ctx, path, src, p)
	if err != nil {
		return nil, err
	}
	res := &queryResult{q: q, forget: func() { s.forget(q) }}
	if q.placement != nil {
		return &explained{queryResult: res}, nil
	}
	for {
		ev, err := res.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			_ = res.Close()
			return nil, err
		}
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	return q.analysis(res), nil
}

// analysis says what was measured of a query that has ended.
func (q *query) analysis(res *queryResult) *answer.Table {
	sum := res.Summary()
	_ = res.Close()
	rel := answer.NewTable(planColumn)
	rel.AddLines(q.explain())
	acquired := fmt.Sprintf("%d tuples acquired", q.t.Acquired.Load())
	if len(q.collector.sources) > 0 {
		acquired += fmt.Sprintf(", %d partial rows from the kernel", q.t.Groups.Load())
	}
	rel.AddLines(fmt.Sprintf("ran %s: %s, %d rows given", sum.Elapsed.Round(time.Millisecond), acquired, sum.Rows))
	for _, l := range sum.Losses {
		rel.AddLines(fmt.Sprintf("lost %d: %s", l.N, l.Cause))
	}
	if len(sum.Losses) == 0 {
		rel.AddLines("complete: nothing was lost")
	}
	for _, l := range sum.Counts {
		rel.AddLines(fmt.Sprintf("%d %s", l.N, l.Cause))
	}
	rel.Notices = q.notices()
	return rel
}

// explained is EXPLAIN ANALYZE of a query that is divided: its rows are for the
// client's fragment, and then come those that say what was measured.
type explained struct {
	*queryResult
	said atomic.Pointer[answer.Table] // once the query has ended
}

func (r *explained) Columns() []wire.Column { return []wire.Column{planColumn} }

// Fragment implements wire.Fragmented.
func (r *explained) Fragment() *wire.Fragment {
	f := r.queryResult.Fragment()
	f.Columns, f.Measured = r.Columns(), true
	return f
}

func (r *explained) Next(ctx context.Context) (wire.Event, error) {
	if r.said.Load() == nil {
		ev, err := r.queryResult.Next(ctx)
		if !errors.Is(err, io.EOF) {
			return ev, err
		}
		r.said.Store(r.q.analysis(r.queryResult))
	}
	return r.said.Load().Next(ctx)
}

func (r *explained) Summary() wire.Summary {
	if said := r.said.Load(); said != nil {
		return said.Summary()
	}
	return r.queryResult.Summary()
}

// explainPlan says what would be done for a plan that is permitted, each line behind the indent. more
// may add to that while the plan's sources are prepared.
func (s *session) explainPlan(ctx context.Context, path wire.Path, rel *answer.Table, p *plan.Query, src, indent string, more func(*query) string) error {
	q, err := s.prepare(ctx, src, p)
	if err != nil {
		return err
	}
	defer q.abandon()
	if err := s.divide(q, path); err != nil {
		return err
	}
	said := q.explain()
	if more != nil {
		said += more(q)
	}
	for line := range strings.Lines(said) {
		rel.AddLines(indent + line)
	}
	rel.Notices = append(rel.Notices, q.notices()...)
	if err := q.refusal(); err != nil {
		rel.Notices = append(rel.Notices, "it would be refused: "+err.Error())
	}
	return nil
}

// explain prints the plan: a line for each operator, with the site and, after
// a run, what was measured; below an acquisition its probe sites.
func (q *query) explain() string {
	var b strings.Builder
	stats := map[plan.Node]*graph.Stats{}
	if q.life.started() {
		for _, st := range q.graph.Stats {
			stats[st.Node] = st
		}
	}
	var walk func(n plan.Node, depth int)
	walk = func(n plan.Node, depth int) {
		indent := strings.Repeat("  ", depth)
		fmt.Fprintf(&b, "%s%s  (%s", indent, n.Describe(), q.site(n))
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
	walk(q.plan.Root, 0)
	q.gating.Explain(&b)
	if q.placement != nil {
		q.placement.Explain(&b)
	}
	if q.plan.For > 0 {
		fmt.Fprintf(&b, "for %s\n", plan.FormatDuration(int64(q.plan.For)))
	}
	if len(q.plan.Fired) > 0 {
		fmt.Fprintf(&b, "rules: %s\n", strings.Join(q.plan.Fired, ", "))
	}
	return b.String()
}

// site is where a node works. What is attached to programs is in the kernel,
// with the filter and the aggregate that its acquisition was given.
func (q *query) site(n plan.Node) string {
	if q.placement != nil {
		if at := q.placement.ExecutesAt(q.plan.Root, n); at != "" {
			return at
		}
	}
	for _, f := range q.feeds {
		if f.Spec == n && f.Attaches() {
			return "kernel"
		}
	}
	return "server"
}

func (q *query) explainSites(b *strings.Builder, a *plan.Acquire, indent string) {
	for _, f := range q.feeds {
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
		left := info.Residual
		if a.Filter != nil && left != a.Filter {
			fmt.Fprintf(b, "%sfilter %s  (kernel)\n", indent, a.Filter)
		}
		if left != nil {
			at := "server"
			if p := q.placement; p != nil && p.Tested && p.Base == a {
				at = p.LowerSite()
			}
			fmt.Fprintf(b, "%sfilter %s  (%s)\n", indent, left, at)
		}
	}
}
