package server

import (
	"context"
	"io"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// analyzeFor is how long EXPLAIN ANALYZE runs a query that has no FOR.
const analyzeFor = 5 * time.Second

// explain runs EXPLAIN [ANALYZE] query: the plan, where each operator runs,
// what would be attached, and which rules fired; with ANALYZE the query is run
// and the measurements are added.
func (s *session) explain(ctx context.Context, path wire.Path, st *parser.Explain, src string, args []types.Value) (wire.Result, error) {
	switch of := st.Of.(type) {
	case *parser.CreateTrigger:
		return s.explainTrigger(ctx, of, src)
	case *parser.CreateExport:
		return s.explainExport(ctx, of, src)
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
		rel := answer.NewTable(query.PlanColumn)
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
	res := &query.Result{Query: q, Forget: func() { s.forget(q) }}
	if q.Placement != nil {
		return &query.Explained{Result: res}, nil
	}
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
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
	return q.Analysis(res), nil
}

// explainPlan explains a plan that is permitted, each line after the indent.
// more may add lines before the plan's sources are released.
func (s *session) explainPlan(ctx context.Context, path wire.Path, rel *answer.Table, p *plan.Query, src, indent string, more func(*query.Query) string) error {
	q, err := s.prepare(ctx, src, p)
	if err != nil {
		return err
	}
	defer q.Abandon()
	if err := s.divide(q, path); err != nil {
		return err
	}
	said := q.Explain()
	if more != nil {
		said += more(q)
	}
	for line := range strings.Lines(said) {
		rel.AddLines(indent + line)
	}
	rel.Notices = append(rel.Notices, q.Notices()...)
	if err := q.Refusal(); err != nil {
		rel.Notices = append(rel.Notices, "it would be refused: "+err.Error())
	}
	return nil
}
