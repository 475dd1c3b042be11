package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/server/answer"
	"endoscope/server/export"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// createExport runs CREATE EXPORT.
func (s *session) createExport(ctx context.Context, st *parser.CreateExport, text string) (wire.Result, error) {
	p, q, err := s.planExport(ctx, st, text)
	if err != nil {
		return nil, err
	}
	x, err := export.New(p, text, s.may.Name(), q, queryHost{s.e})
	if err != nil {
		q.Abandon()
		return nil, err
	}
	release, err := s.e.triggers.Claim(ctx, "export "+p.Key)
	if err != nil {
		x.Abandon()
		return nil, err
	}
	defer release()
	if s.e.exports.Get(p.Key) != nil && !st.Replace {
		x.Abandon()
		return nil, answer.Refuse(st.Name, text, "CREATE OR REPLACE EXPORT, or DROP EXPORT "+p.Name, "there is an export %s already", p.Name)
	}
	s.releaseWhenStarted(q)
	if err := x.Start(); err != nil {
		x.Abandon()
		return nil, err
	}
	go x.Run()
	old, err := s.e.exports.Put(x)
	if err != nil {
		s.e.exports.Remove(x)
		return nil, err
	}
	if old != nil {
		s.e.exports.Remove(old)
	}
	if done, err := s.beginJournal(text); err == nil {
		go func() {
			<-x.Over
			done()
		}()
	}
	r := answer.Messagef("export %s created", p.Name)
	notices := append(slices.Clone(p.Notices), q.Notices()...)
	if p.To == "" && !s.e.options.Metrics {
		notices = append(notices, "this engine does not serve metrics: start endoscoped with --metrics HOST:PORT")
	}
	if err := s.keep("export", p.Name, text, q.Plan); err != nil {
		notices = append(notices, err.Error())
	}
	r.Notices = answer.Distinct(notices)
	return r, nil
}

// planExport plans and prepares an export, if the session may have it: within the default
// overhead, unless the statement or the session says otherwise, or the query cannot be
// estimated.
func (s *session) planExport(ctx context.Context, st *parser.CreateExport, text string) (*planner.Export, *query.Query, error) {
	env := s.env()
	if st.Query.Overhead != nil || env.Overhead > 0 {
		return s.planExportIn(ctx, st, text, env)
	}
	env.Overhead = planner.DefaultExportOverhead
	p, q, err := s.planExportIn(ctx, st, text, env)
	reason := "only aggregates of one stream of functions, or of its windows, have estimates"
	switch {
	case err == nil && (p.Options.Exact || !ofEveryCall(p.Query)):
		return p, q, nil
	case err != nil:
		reason = err.Error()
		if e := new(parser.Error); errors.As(err, &e) {
			reason = e.Msg
		}
		if p, q, err = s.planExportIn(ctx, st, text, s.env()); err != nil {
			return nil, nil, err
		}
	}
	p.Notices = append(slices.Clone(p.Notices), fmt.Sprintf("the export is exact, and no overhead of %g%% bounds it: %s", 100*planner.DefaultExportOverhead, reason))
	return p, q, nil
}

// ofEveryCall reports whether a query observes every call of some function.
func ofEveryCall(p *plan.Query) bool {
	return slices.ContainsFunc(plan.Leaves(p.Root), func(leaf *plan.Acquire) bool {
		st := catalog.Find(leaf.Stream)
		return st != nil && st.Functions && leaf.Budget == nil
	})
}

// planExportIn plans and prepares an export in an environment.
func (s *session) planExportIn(ctx context.Context, st *parser.CreateExport, text string, env *planner.Env) (*planner.Export, *query.Query, error) {
	p, err := planner.PlanExport(st, text, env)
	if err != nil {
		return nil, nil, err
	}
	if p.To != "" {
		if err := s.may.MayExport(p.To); err != nil {
			return nil, nil, answer.PlacedAt(err, p.Start, p.Stop, text)
		}
	}
	permitted, err := s.permitted(p.Query, text)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.prepare(ctx, text, boundExport(permitted))
	if err != nil {
		return nil, nil, err
	}
	s.budgets().apply(q)
	q.MemoryLimit = p.Options.Memory
	return p, q, nil
}

// boundExport bounds what the query of an export may cost its target. An export runs for as
// long as nobody looks, so it has a bound also where SET max_overhead = 0 has none.
func boundExport(p *plan.Query) *plan.Query {
	out := *p
	out.Root = plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok || a.Settings.MaxOverhead > 0 {
			return n
		}
		c := *a
		c.Settings.MaxOverhead = catalog.FindSetting("max_overhead").Default.F / 100
		return &c
	})
	return &out
}

// dropExport runs DROP EXPORT. When it returns, nothing of the export is attached.
func (s *session) dropExport(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	name, key := st.Name.Name, s.scope.Resolve(st.Name.Name)
	release, err := s.e.triggers.Claim(ctx, "export "+key)
	if err != nil {
		return nil, err
	}
	defer release()
	x := s.e.exports.Get(key)
	if x == nil && !s.e.kept.Waits("export", key) {
		hint := planner.DidYouMean(name, s.exportNames())
		if hint == "" {
			hint = "SHOW EXPORTS lists them"
		}
		return nil, answer.Refuse(st.Name, text, hint, "there is no export %s", name)
	}
	if x != nil {
		s.e.exports.Remove(x)
	}
	r := answer.Messagef("export %s dropped", name)
	if _, err := s.e.kept.Drop("export", key); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// exportNames returns the exports visible to the session, as its user writes them.
func (s *session) exportNames() []string { return s.scope.Visible(s.e.exports.Names()) }

// explainExport runs EXPLAIN CREATE EXPORT: what would be exported, and the plan.
func (s *session) explainExport(ctx context.Context, st *parser.CreateExport, src string) (wire.Result, error) {
	p, q, err := s.planExport(ctx, st, src)
	if err != nil {
		return nil, err
	}
	q.Abandon()
	rel := answer.NewTable(answer.Text("plan"))
	rel.Notices = p.Notices
	rel.AddLines(fmt.Sprintf("export %s to %s, every %s", p.Name, export.Target(p), p.Options.Interval))
	for _, d := range export.Contents(p) {
		rel.AddLines("  " + d.Name + ": " + d.Kind + " of " + d.From)
	}
	return rel, s.explainPlan(ctx, nil, rel, q.Plan, src, "  ", nil)
}

// Gather returns the exports to Prometheus of the owners that one function selects.
func (e *Engine) Gather(selected func(owner string) bool) []*dto.MetricFamily {
	return e.exports.Gather(selected)
}

// drop runs DROP.
func (s *session) drop(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	if st.Kind == "QUERY" {
		return nil, answer.Refuse(st, text, "endoscope --fleet URL", "DROP QUERY is of a fleet")
	}
	if st.IfExists && !s.exists(st) {
		return answer.Messagef("there is no %s: nothing dropped", st.Name.Name), nil
	}
	switch st.Kind {
	case "TRIGGER":
		return s.dropTrigger(ctx, st, text)
	case "MODEL":
		return s.dropModel(st, text)
	case "EXPORT":
		return s.dropExport(ctx, st, text)
	case "CONTEXT":
		return s.dropContext(ctx, st, text)
	}
	return s.dropStream(ctx, st, text)
}

// exists reports whether there is what DROP names.
func (s *session) exists(st *parser.Drop) bool {
	key := s.scope.Resolve(st.Name.Name)
	switch st.Kind {
	case "TRIGGER":
		return s.e.triggers.Get(key) != nil || s.e.kept.Waits("trigger", key)
	case "EXPORT":
		return s.e.exports.Get(key) != nil || s.e.kept.Waits("export", key)
	case "CONTEXT":
		return s.e.contexts.Get(key) != nil
	case "MODEL":
		k, err := s.e.models.Get(key)
		return k != nil || err != nil
	}
	return s.e.views.Get(key) != nil
}
