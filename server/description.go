package server

import (
	"context"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/server/answer"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// Describe implements wire.Session. Parameters count as NULL.
func (s *session) Describe(ctx context.Context, text string) (wire.Description, error) {
	done, err := s.beginJournal(text)
	if err != nil {
		return wire.Description{}, err
	}
	defer done()
	stmt, release, err := s.parse(text)
	defer release()
	if err != nil {
		return wire.Description{}, err
	}
	env := s.env()
	env.Unbound = &planner.Unbound{}
	d := wire.Description{Params: parser.Params(text)}
	var p *plan.Query
	switch st := stmt.(type) {
	case *parser.Query:
		if s.stands || s.shares {
			return s.describeShare(st, text)
		}
		p, err = planner.Plan(st, text, env)
	case *parser.Insert:
		p, err = planner.PlanInsert(st, text, env)
	case *parser.Explain:
		d.Columns = []wire.Column{query.PlanColumn}
	case *parser.Show, *parser.Describe: // they only read
		res, err := s.execute(ctx, nil, stmt, text, nil)
		if err != nil {
			return d, err
		}
		d.Columns = res.Columns()
		return d, res.Close()
	}
	if p != nil {
		d.Columns, d.ParamTypes = answer.ColumnsOf(p.Root.Schema()), env.Unbound.Types(d.Params)
	}
	return d, err
}

// describeShare describes what a query over several hosts gives: of a standing one without the
// columns that each has.
func (s *session) describeShare(q *parser.Query, text string) (d wire.Description, err error) {
	env := s.env()
	env.Unbound = &planner.Unbound{}
	env.Host, env.Labels, env.Standing = "host", s.labels, s.stands
	_, upper, err := planner.PlanShare(q, text, env)
	if err == nil {
		d.Columns, d.Merges = answer.ColumnsOf(upper.Upper.Schema()), upper.Merges()
	}
	return d, err
}
