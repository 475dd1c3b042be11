package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/definitions"
	"endoscope/planner/distribute"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
	"endoscope/planner/standing"
	"endoscope/planner/types"
)

// share is the planning state of a statement of which this host executes its
// share.
type share struct {
	own     bool // each host's result is its own
	nothing bool // the host has no rows: the types of values are unknown and do not matter
	places  map[plan.Node]distribute.Place
	borders map[plan.Node]int
	order   plan.Node // the sort of the whole result, or nil
}

// PlanShare plans what the host env.Host executes of a query over several hosts,
// and what their root executes. Errors are *parser.Error.
func PlanShare(q *parser.Query, src string, env *Env) (*plan.Query, *plan.Fragment, error) {
	if env.Standing {
		var err error
		if q, err = standing.Query(q, src); err != nil {
			return nil, nil, err
		}
	}
	type planned struct {
		lower *plan.Query
		upper *plan.Fragment
	}
	nothing := false
	out, err := resolving(env, src, func(r *resolver) (out planned, err error) {
		r.share = &share{nothing: nothing, places: map[plan.Node]distribute.Place{}, borders: map[plan.Node]int{}}
		r.owns(q)
		r.maySample = true
		root, err := r.query(q, nil, top)
		if err != nil {
			return out, err
		}
		of, err := distribute.Hosts(&distribute.Statement{Root: root.node, Own: r.share.own, Places: r.share.places, Borders: r.share.borders, Order: r.share.order, Emit: q.Emit, Src: src})
		if err != nil {
			return out, err
		}
		if x := of.Upper.Exchange; env.Standing && (x.Kind != plan.MergeStates || x.Again != plan.PerWindow) {
			return out, r.hintf(q.Pos(), "group by what means the same on all hosts", "the windows of this query are of one host each: a standing query merges those of all hosts")
		}
		if out.lower, err = r.finish(nameHost(of.Lower, env), q.For); err != nil {
			return out, err
		}
		if rules.ReadsLines(root.node) { // of the hosts' rows, also where only the root reads them
			out.lower.Root = rules.WithLines(out.lower.Root)
		}
		if out.upper = of.Upper; len(plan.Leaves(out.lower.Root)) == 0 && r.serial > 0 {
			if !nothing {
				nothing = true
				return out, errTypesFound
			}
			out.upper.Exchange.Nothing = true
		}
		out.upper.Exchange.Notices, out.lower.Notices = out.lower.Notices, nil
		return out, nil
	})
	return out.lower, out.upper, err
}

func (r *resolver) shared() bool { return r.share != nil }

// owns records whether each host's result is separate: with GROUP BY host, or if a
// key or an aggregate is only meaningful within a host.
func (r *resolver) owns(q *parser.Query) {
	if len(q.Selects) != 1 {
		return
	}
	sel := q.Selects[0]
	if slices.ContainsFunc(sel.GroupBy, func(e parser.Expr) bool {
		x, err := r.groupItem(e, sel)
		return isHost(e) || err == nil && isHost(x)
	}) {
		r.share.own = true
		return
	}
	for _, e := range sel.GroupBy {
		if x, err := r.groupItem(e, sel); err == nil && namesOneHost(x) && readsStreamsOnly(sel.From) {
			r.share.own = true
			r.notice("groups are of one host each, as %s is", r.src[x.Pos().Start:x.Pos().Stop])
			return
		}
	}
	var all []parser.Expr
	for _, i := range sel.Items {
		if i.X != nil {
			all = append(all, i.X)
		}
	}
	if sel.Having != nil {
		all = append(all, sel.Having)
	}
	for _, o := range q.OrderBy {
		all = append(all, o.X)
	}
	for _, e := range all {
		x := distribute.FindExpr(e, func(e parser.Expr) bool {
			c, ok := e.(*parser.Call)
			return ok && distribute.OneHostAggregate(strings.ToLower(c.Name.Name))
		})
		if x != nil {
			r.share.own = true
			r.notice("groups are of one host each, as %s is", r.src[x.Pos().Start:x.Pos().Stop])
			return
		}
	}
}

func isHost(e parser.Expr) bool {
	c, ok := e.(*parser.ColumnRef)
	return ok && len(c.Parts) == 1 && strings.EqualFold(c.Parts[0].Name, plan.HostColumn)
}

// oneHost are columns whose equal values mean different things on two hosts.
var oneHost = []string{"pid", "tid", "goroutine", "address"}

// namesOneHost reports whether a key is one of those columns.
func namesOneHost(e parser.Expr) bool {
	c, ok := e.(*parser.ColumnRef)
	return ok && slices.Contains(oneHost, strings.ToLower(c.Parts[len(c.Parts)-1].Name))
}

// readsStreamsOnly reports whether the query reads only streams of the catalog: columns
// of sub-queries and files may have any meaning.
func readsStreamsOnly(f *parser.From) bool {
	if f == nil {
		return false
	}
	is := func(s *parser.Source) bool {
		for s.Src != nil {
			s = s.Src
		}
		return s.Name != nil && s.Query == nil && catalog.Find(strings.ToLower(s.Name.Name)) != nil
	}
	return is(f.First) && !slices.ContainsFunc(f.Joins, func(j *parser.Join) bool { return !is(j.Right) })
}

// host returns the column host if no source has a column of this name.
func (c *exprCtx) host(e *parser.ColumnRef) (plan.Expr, error) {
	return c.ofHost(&plan.Host{Start: e.Start, Stop: e.Stop}, e.Pos())
}

// hostLabel returns a call of host_label.
func (c *exprCtx) hostLabel(e *parser.Call) (plan.Expr, error) {
	if !c.r.shared() {
		return nil, c.r.hintf(e.Pos(), "endoscope --fleet URL", "%s is of the hosts of a fleet", plan.HostLabel)
	}
	if len(e.Args) != 1 || e.Args[0].Name != nil || e.Star || e.Distinct || e.Filter != nil {
		return nil, c.r.hintf(e.Pos(), plan.HostLabel+"('rack')", "%s takes the name of a label", plan.HostLabel)
	}
	k, err := c.constant(e.Args[0].X, plan.HostLabel)
	if err != nil {
		return nil, err
	}
	if k.V.Type != types.Varchar || k.V.IsNull || k.V.S == "" {
		return nil, c.r.hintf(e.Args[0].X.Pos(), plan.HostLabel+"('rack')", "%s takes the name of a label", plan.HostLabel)
	}
	return c.ofHost(&plan.Host{Label: k.V.S, Start: e.Pos().Start, Stop: e.Pos().Stop}, e.Pos())
}

func (c *exprCtx) ofHost(x *plan.Host, at parser.Span) (plan.Expr, error) {
	if len(c.r.views) > 0 {
		x.Start, x.Stop = c.r.outer.pos.Start, c.r.outer.pos.Stop
	}
	if c.agg != nil && !c.r.share.own {
		return c.agg.column(x, x.String(), at)
	}
	return x, nil
}

// ownHost reports whether a key is the host of a result that is separate for each
// host.
func (r *resolver) ownHost(key plan.Expr) bool {
	h, ok := key.(*plan.Host)
	return ok && h.Label == "" && r.shared() && r.share.own
}

// placeOf records the position of a node that may need the rows of all hosts.
func (r *resolver) placeOf(n plan.Node, pos parser.Span, sel *parser.Select) {
	if !r.shared() {
		return
	}
	p := distribute.Place{Pos: pos, Src: r.src, Sel: sel}
	if len(r.views) > 0 {
		p = distribute.Place{Pos: r.outer.pos, Src: r.outer.src}
	}
	r.share.places[n] = p
}

// addHostColumn makes the host the first column of rows, unless the query selects
// it, or each row is computed from several hosts.
func (r *resolver) addHostColumn(s *selected, union bool) {
	if !r.shared() || s.sel.Distinct && !r.share.own || slices.ContainsFunc(s.sel.Items, func(i *parser.SelectItem) bool { return i.X != nil && isHost(i.X) }) {
		return
	}
	if !r.share.own && !union && (s.aggregated || distribute.NeedsAll(s.in.node)) {
		return
	}
	s.exprs = slices.Insert(slices.Clone(s.exprs), 0, plan.Expr(&plan.Host{}))
	s.names = slices.Insert(slices.Clone(s.names), 0, plan.HostColumn)
	s.lead = 1
}

// orderByHost adds the host as the last sort key, so that the order of equal rows
// does not depend on arrival.
func (r *resolver) orderByHost(keys []plan.SortKey, s *selected) []plan.SortKey {
	i := slices.Index(s.names, plan.HostColumn)
	if !r.shared() || len(keys) == 0 || i < 0 || s.exprs[i].Type() != types.Varchar {
		return keys
	}
	return append(keys, plan.SortKey{X: &plan.Col{Index: i, Name: plan.HostColumn, T: types.Varchar}})
}

// addBorders adds the borders of windows as hidden columns, by which the root
// distinguishes the results that it combines. It returns the index of the first
// border; -1 if there are none.
func (r *resolver) addBorders(q *parser.Query, s *selected) (first int, err error) {
	arranged := len(q.OrderBy) > 0 || q.Limit != nil || s.sel.Distinct
	if !r.shared() || s.union || !s.windowed || !arranged || s.aggregated && !r.share.own || s.nested && r.share.own {
		return -1, nil
	}
	first = len(s.exprs)
	for _, name := range []string{"window_start", "window_end"} {
		x, err := s.ctx.resolve(&parser.ColumnRef{Parts: []*parser.Ident{{Name: name}}})
		if err != nil {
			return -1, err
		}
		s.exprs = append(s.exprs, x)
	}
	return first, nil
}

// noteBorders records where a projection has the borders of windows.
func (r *resolver) noteBorders(n plan.Node, first int) {
	if first >= 0 {
		r.share.borders[n] = first
	}
}

// nameHost replaces the column host and labels by those of the host.
func nameHost(root plan.Node, env *Env) plan.Node {
	return rules.MapExprs(root, func(e plan.Expr) plan.Expr { return named(e, env) })
}

// named replaces the column host and labels in an expression.
func named(e plan.Expr, env *Env) plan.Expr {
	return plan.Transform(e, func(x plan.Expr) plan.Expr {
		h, ok := x.(*plan.Host)
		switch {
		case !ok:
			return x
		case h.Label == "":
			return &plan.Const{V: types.Str(env.Host)}
		}
		if value, ok := env.Labels[h.Label]; ok {
			return &plan.Const{V: types.Str(value)}
		}
		return &plan.Const{V: types.NullOf(types.Varchar)}
	})
}

// ChooseHosts returns which hosts a query can have rows of: those for which all conditions
// of its WHERE that are only about the host hold. Mistakes in the query are left to the
// hosts.
func ChooseHosts(q *parser.Query, src string, eval func(plan.Expr) (types.Value, error)) func(host string, labels map[string]string) bool {
	var conds []plan.Expr
	env := &Env{Eval: eval, Views: definitions.NewViews(), Triggers: definitions.NewTriggers()}
	if len(q.Selects) == 1 && q.Selects[0].Where != nil {
		r := &resolver{env: env, src: src, share: &share{}, known: map[valueKey]types.Type{}}
		for _, e := range conjunctsOf(q.Selects[0].Where) {
			c := &exprCtx{r: r, in: &scope{node: &plan.Values{}}, clause: "WHERE"}
			if x, err := c.boolean(e); err == nil && aboutHost(x) {
				conds = append(conds, x)
			}
		}
	}
	return func(host string, labels map[string]string) bool {
		of := &Env{Host: host, Labels: labels}
		return !slices.ContainsFunc(conds, func(x plan.Expr) bool {
			v, err := eval(named(x, of))
			return err == nil && (v.IsNull || v.I == 0)
		})
	}
}

func aboutHost(x plan.Expr) (is bool) {
	plan.Walk(x, func(x plan.Expr) {
		_, host := x.(*plan.Host)
		is = is || host
	})
	return is
}
