package server

import (
	"context"
	"strings"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/export"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// describe answers DESCRIBE stream and DESCRIBE FUNCTION name.
func (s *session) describe(_ context.Context, st *parser.Describe, src string) (wire.Result, error) {
	name := st.Name.Name
	if st.Function {
		release, err := s.reserveSymbols(s.program().Target)
		if err != nil {
			return nil, answer.Forbidden(err, st, src)
		}
		defer release()
		return s.program().DescribeFunction(st, src)
	}
	key := s.scope.Resolve(name)
	if v := s.e.views.Get(key); v != nil {
		return s.describeView(key, v)
	}
	if t := s.e.triggers.Get(key); t != nil {
		return trigger.Describe(t), nil
	}
	if x := s.e.exports.Get(key); x != nil {
		return export.Describe(x), nil
	}
	if q := s.e.options.Standing.Get(key); q != nil {
		return q.Describe(), nil
	}
	cs := catalog.Find(strings.ToLower(name))
	if cs == nil {
		if k, err := s.e.models.Get(key); err == nil && k != nil {
			return describeModel(k), nil
		}
		var names []string
		for _, st := range catalog.Streams {
			names = append(names, st.Name)
		}
		return nil, answer.Refuse(st.Name, src, planner.DidYouMean(name, append(names, s.streamNames()...)), "there is no stream %s", name)
	}
	if cs.Later {
		return nil, answer.Unsupported(st.Name, src, cs.Name)
	}
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"), answer.Text("unit"), answer.Text("description"))
	for _, c := range cs.All() {
		rel.Add(types.Str(c.Name), types.Str(c.Type.String()), types.Str(c.Unit), types.Str(c.Doc))
	}
	rel.Notices = []string{
		cs.Name + ": " + cs.Doc + " (" + cs.Kind.String() + ")",
		"acquired by " + cs.How,
		"costs " + cs.Cost,
		"needs " + cs.Needs,
	}
	return rel, nil
}

// describeView lists the columns of a user's stream: those of SELECT * from it.
func (s *session) describeView(key string, v *parser.CreateStream) (wire.Result, error) {
	src := v.Query.String()
	sch, err := planner.ViewSchema(key, v, s.env())
	if err != nil {
		return nil, err
	}
	rel := answer.NewTable(answer.Text("column"), answer.Text("type"))
	for _, f := range sch {
		rel.Add(types.Str(f.Name), types.Str(f.Type.String()))
	}
	rel.Notices = []string{v.Name.Name + ": " + src}
	return rel, nil
}

// valueTypes returns, for the planner, the types of an acquisition's columns
// that are arguments by name, of programs that the session may observe.
func (s *session) valueTypes(a *plan.Acquire) ([]types.Type, error) {
	p, err := s.permitted(&plan.Query{Root: a}, "")
	if err != nil {
		return nil, err
	}
	return s.e.uprobes.Values(p.Root.(*plan.Acquire))
}
