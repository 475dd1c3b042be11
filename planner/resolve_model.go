package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// modelEncoders are the encoders whose results can be models.
var modelEncoders = []string{"automaton", "grammar", "calldag"}

// PlanModel plans the query of CREATE MODEL, whose rows are encodings.
func PlanModel(c *parser.CreateModel, src string, env *Env) (*plan.Query, error) {
	r := &resolver{env: env, src: src}
	hint := "for example CREATE MODEL " + c.Name.Name + " AS SELECT AUTOMATON(function_name, sequence => tid) FROM function_start WHERE ... FOR 10s"
	q := c.Query
	if q.Emit != nil && q.Emit.Mode != "FINAL" {
		return nil, r.hintf(q.Emit.Pos(), "leave out EMIT", "a model is made from the final result")
	}
	for _, s := range q.Selects {
		for _, it := range s.Items {
			call, ok := it.X.(*parser.Call)
			if !ok || !plan.IsEncoder(strings.ToLower(call.Name.Name)) {
				continue
			}
			if name := strings.ToLower(call.Name.Name); !slices.Contains(modelEncoders, name) {
				return nil, r.hintf(call.Name.Pos(), hint, "%s does not describe what may follow what: a model is made from an automaton or a grammar", strings.ToUpper(name))
			}
		}
	}
	if err := r.newName("a model", c.Name); err != nil {
		return nil, err
	}
	p, err := Plan(q, src, env)
	if err != nil {
		return nil, err
	}
	fields := p.Root.Schema().Fields
	if len(fields) != 1 || fields[0].Type != types.Encoding {
		return nil, r.hintf(q.Pos(), hint, "a model is made from one column, an automaton or a grammar")
	}
	return p, nil
}

// model removes the name of the model from the end of the columns, and converts it and its
// consequences to options.
func (a *encoderArgs) model(values []*parser.Arg) ([]*parser.Arg, error) {
	upper := strings.ToUpper(a.f.Name)
	last := len(values) - 1
	if last < 0 {
		return nil, a.refuse(a.e.Pos(), "%s needs a column and a model", upper)
	}
	at := values[last].X
	name, ok := wordOf(at)
	if !ok || last == 0 {
		return nil, a.refuse(at.Pos(), "the last argument of %s is the name of a model", upper)
	}
	models, scope := a.c.r.env.Models, a.c.r.scope()
	if models == nil {
		return nil, a.c.r.errorf(at.Pos(), "there are no models here")
	}
	qualified := scope.Resolve(name)
	var v types.Value
	var found bool
	var err error
	if qualified != "" {
		v, found, err = models.Model(qualified)
	}
	switch {
	case err != nil:
		return nil, a.c.r.errorf(at.Pos(), "model %s cannot be read: %v", name, err)
	case !found:
		hint := DidYouMean(name, scope.Visible(models.ModelNames()))
		if hint == "" {
			hint = "SHOW MODELS lists them; CREATE MODEL " + name + " AS SELECT AUTOMATON(...) makes one"
		}
		return nil, a.c.r.hintf(at.Pos(), hint, "there is no model %s", name)
	}
	a.out.Options = append(a.out.Options, plan.NamedValue{Name: plan.ModelOption, V: v, Text: name, ByPosition: true})
	return values[:last], nil
}

// open sets the option that sequences may not have ended, if it was not given and the rows
// are unbounded, or windows cut them.
func (a *encoderArgs) open(given map[string]plan.NamedValue) {
	in := a.rows.in
	if _, said := given[plan.TruncatedOption]; said || in.finite && !in.windowed {
		return
	}
	given[plan.TruncatedOption] = plan.NamedValue{Name: plan.TruncatedOption, V: types.Str("on"), Text: "on", Implied: true}
}
