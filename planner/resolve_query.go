package planner

import (
	"slices"
	"time"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func (r *resolver) query(q *parser.Query, with ctes, lv level) (*scope, error) {
	return r.queryEvery(q, with, lv, 0)
}

// queryEvery resolves a query whose bare non-enumerable stream, if any, is sampled at the
// interval every.
func (r *resolver) queryEvery(q *parser.Query, with ctes, lv level, every time.Duration) (*scope, error) {
	for i, c := range q.With {
		for _, d := range q.With[:i] {
			if c.Name.Name == d.Name.Name {
				return nil, r.errorf(c.Name.Pos(), "WITH defines %s twice", c.Name.Name)
			}
		}
		// An unused definition is also checked.
		if _, err := r.subquery(c.Query, append(slices.Clone(with), q.With[:i]...), definition, 0); err != nil {
			return nil, err
		}
	}
	with = append(slices.Clone(with), q.With...)
	defer func(outer estimation) { r.estimation = outer }(r.estimation)
	if err := r.budget(q, lv); err != nil {
		return nil, err
	}
	if err := r.precision(q, lv); err != nil {
		return nil, err
	}

	var parts []*selected
	for _, s := range q.Selects {
		p, err := r.selectCore(s, q, with, lv, every)
		if err != nil {
			return nil, err
		}
		if lv == top {
			r.addHostColumn(p, len(q.Selects) > 1)
		}
		parts = append(parts, p)
	}
	if len(parts) == 1 {
		return r.tail(q, parts[0], lv)
	}
	u, err := r.union(q, parts)
	if err != nil {
		return nil, err
	}
	return r.tail(q, u, lv)
}

// selected is a SELECT before its projection is built: ORDER BY may still add columns that
// are computed but not returned.
type selected struct {
	sel        *parser.Select
	in         *scope // input of the items
	ctx        *exprCtx
	exprs      []plan.Expr
	names      []string
	aggregated bool
	windowed   bool
	union      bool                // exprs are the columns of a union, and ORDER BY sees only those
	bounds     map[int]types.Bound // columns that bound estimates, by index
	nested     bool                // its rows are those of a source: rows of windows have the time of their window's end
	lead       int                 // columns before those that the query selects: ORDER BY 1 is the one after them
}

func (r *resolver) selectCore(s *parser.Select, q *parser.Query, with ctes, lv level, every time.Duration) (*selected, error) {
	in, err := r.from(s.From, with, lvIn(lv), every)
	if err != nil {
		return nil, err
	}
	out := &selected{sel: s, in: in, windowed: in.windowed}
	if s.Where != nil {
		cond, err := (&exprCtx{r: r, in: in, clause: "WHERE"}).boolean(s.Where)
		if err != nil {
			return nil, err
		}
		c := *in
		c.node = &plan.Filter{Input: in.node, Cond: cond}
		out.in = &c
	}
	out.aggregated = aggregates(s, q)
	if s.Having != nil && !out.aggregated {
		return nil, r.hintf(s.Having.Pos(), "use WHERE", "HAVING needs an aggregate or GROUP BY")
	}
	if err := r.checkEmit(q, out); err != nil {
		return nil, err
	}
	if r.overhead != nil && (!out.aggregated || r.ofSequence(s)) {
		if err := r.sample(s, in, lv); err != nil {
			return nil, err
		}
	}
	if out.aggregated {
		if in.estimated {
			return nil, r.hintf(s.Pos(), "aggregate in the sub-query alone", "estimates cannot be aggregated again: no interval is known for the result")
		}
		if in.bare != nil {
			return nil, r.hintf(s.From.Pos(), r.sampled(s.From.First.Pos(), in.bare.Name),
				"%s has a value at every instant and cannot be aggregated without SAMPLE", in.bare.Name)
		}
		return out, r.aggregate(out, q)
	}
	if in.windowed {
		// No aggregate closes the windows, so the window itself must.
		c := *out.in
		c.node = hold(out.in.node)
		out.in = &c
	}
	out.ctx = &exprCtx{r: r, in: out.in, clause: "SELECT"}
	if err := r.items(out); err != nil || !in.estimated {
		return out, err
	}
	return out, r.addBounds(out, in.bounds)
}

// aggregates reports whether a SELECT of a query aggregates.
func aggregates(s *parser.Select, q *parser.Query) bool {
	return len(s.GroupBy) > 0 || s.Having != nil && hasAggregate(s.Having) ||
		slices.ContainsFunc(s.Items, func(it *parser.SelectItem) bool { return it.X != nil && hasAggregate(it.X) }) ||
		len(q.Selects) == 1 && slices.ContainsFunc(q.OrderBy, func(o *parser.OrderItem) bool { return hasAggregate(o.X) })
}

// lvIn returns the level of the sources of a query at level lv.
func lvIn(lv level) level {
	if lv == top {
		return nested
	}
	return lv
}

// hold makes the window below a WHERE keep its rows until it closes.
func hold(n plan.Node) plan.Node {
	switch n := n.(type) {
	case *plan.Window:
		c := *n
		c.Hold = true
		return &c
	case *plan.Filter, *plan.Project:
		return n.WithInputs([]plan.Node{hold(n.Inputs()[0])})
	}
	return n
}

// items resolves the select list.
func (r *resolver) items(out *selected) error {
	items := out.sel.Items
	if len(items) == 0 {
		items = []*parser.SelectItem{{Span: out.sel.Span, Star: true}}
	}
	for _, it := range items {
		if !it.Star {
			x, err := out.ctx.resolve(it.X)
			if err != nil {
				return err
			}
			name := itemName(it, x)
			out.exprs, out.names = append(out.exprs, untypedNull(x)), append(out.names, name)
			continue
		}
		if err := r.star(out, it); err != nil {
			return err
		}
		if len(out.exprs) > maxWidth { // there may be thousands of *
			break
		}
	}
	return r.countColumns(len(out.exprs), out.sel.Span)
}

// itemName returns the name of an output column: the alias, the column's own name, or the
// text of the expression.
func itemName(it *parser.SelectItem, x plan.Expr) string {
	if it.Alias != nil {
		return it.Alias.Name
	}
	if ref, ok := it.X.(*parser.ColumnRef); ok {
		return ref.Parts[len(ref.Parts)-1].Name
	}
	return x.String()
}

// untypedNull gives a bare NULL a type that columns can have.
func untypedNull(x plan.Expr) plan.Expr {
	if _, isCol := x.(*plan.Col); isCol && x.Type() == types.Null {
		return x // its type is not known yet
	}
	if x.Type() == types.Null {
		return &plan.Const{V: types.NullOf(types.Varchar)}
	}
	return x
}

// checkEmit rejects EMIT clauses without effect.
func (r *resolver) checkEmit(q *parser.Query, s *selected) error {
	switch {
	case q.Emit == nil:
	case s.windowed:
		return r.errorf(q.Emit.Pos(), "EMIT cannot be used with a window, which emits its rows when it closes")
	case q.Emit.Mode == "EVERY" && q.Emit.Every.Int <= 0:
		return r.errorf(q.Emit.Every.Pos(), "EMIT EVERY needs a duration above zero")
	case s.aggregated && q.Emit.Mode == "CHANGES" && len(q.OrderBy) > 0:
		return r.errorf(q.OrderBy[0].Pos(), "EMIT CHANGES emits rows one by one and cannot be ordered")
	case s.aggregated || q.Emit.Mode == "FINAL":
	case q.Emit.Mode == "EVERY" && len(q.OrderBy) > 0:
	default:
		return r.hintf(q.Emit.Pos(), "without EMIT each row is returned as it arrives", "EMIT %s needs an aggregate", q.Emit.Mode)
	}
	return nil
}

func emitOf(q *parser.Query) plan.Emit {
	if q.Emit == nil {
		return plan.Emit{}
	}
	switch q.Emit.Mode {
	case "CHANGES":
		return plan.Emit{Mode: plan.Changes}
	case "EVERY":
		return plan.Emit{Mode: plan.Every, Every: time.Duration(q.Emit.Every.Int)}
	}
	return plan.Emit{}
}

// union combines the selects of a UNION ALL.
func (r *resolver) union(q *parser.Query, parts []*selected) (*selected, error) {
	u := &plan.Union{Out: types.Schema{Time: -1}}
	first := parts[0]
	for i, name := range first.names {
		u.Out.Fields = append(u.Out.Fields, types.Field{Name: name, Type: first.exprs[i].Type()})
	}
	finite := true
	for _, p := range parts[1:] {
		if len(p.exprs) != len(first.exprs) {
			return nil, r.errorf(p.sel.Pos(), "UNION ALL needs the same number of columns: %d here, %d before", len(p.exprs), len(first.exprs))
		}
		for i := range p.exprs {
			t, ok := common([]plan.Expr{&plan.Col{T: u.Out.Fields[i].Type}, p.exprs[i]})
			if !ok {
				return nil, r.errorf(p.sel.Pos(), "UNION ALL: column %s is %s before and %s here", u.Out.Fields[i].Name, u.Out.Fields[i].Type, p.exprs[i].Type())
			}
			u.Out.Fields[i].Type = t
		}
	}
	times := map[int]int{}
	for _, p := range parts {
		for i := range p.exprs {
			p.exprs[i] = coerce(p.exprs[i], u.Out.Fields[i].Type)
		}
		node := p.project()
		times[node.Out.Time]++
		u.Ins = append(u.Ins, node)
		finite = finite && p.in.finite
		if p.in.bare != nil {
			return nil, r.errorf(p.sel.From.Pos(), "UNION ALL over a stream that needs SAMPLE")
		}
		if p.in.estimated {
			return nil, r.hintf(p.sel.From.Pos(), r.offBudget(), "estimates cannot be in a UNION")
		}
	}
	for t, n := range times {
		if n == len(parts) {
			u.Out.Time = t
		}
	}
	sc := &scope{node: u, visible: len(u.Out.Fields), finite: finite}
	out := &selected{sel: first.sel, in: sc, union: true, lead: first.lead, ctx: &exprCtx{r: r, in: sc, clause: "ORDER BY"}}
	for i, f := range u.Out.Fields {
		out.exprs, out.names = append(out.exprs, &plan.Col{Index: i, Name: f.Name, T: f.Type}), append(out.names, f.Name)
	}
	for _, p := range parts {
		out.aggregated = out.aggregated || p.aggregated
		out.windowed = out.windowed || p.windowed
		if p.sel.Distinct {
			return nil, r.errorf(p.sel.Pos(), "DISTINCT inside UNION ALL is not supported yet")
		}
	}
	return out, nil
}

// project builds the projection of what was selected. Exprs beyond names are columns that
// are not returned: sort keys, and the timestamp of a sub-query.
func (s *selected) project() *plan.Project {
	p := &plan.Project{Input: s.in.node, Exprs: s.exprs, Out: types.Schema{Time: -1}}
	t := s.time()
	for i, x := range s.exprs {
		f := types.Field{Type: x.Type()}
		if i < len(s.names) {
			f.Name = s.names[i]
		} else {
			f.Name = x.String()
		}
		f.Bound = s.bounds[i]
		p.Out.Fields = append(p.Out.Fields, f)
		if c, ok := x.(*plan.Col); ok && c.Index == t && p.Out.Time < 0 {
			p.Out.Time = i
		}
	}
	return p
}

// time returns the input column with the time of a source's rows; -1: none. An aggregate
// emits a window when the watermark has passed its end, so later rows have later ends.
func (s *selected) time() int {
	n := s.in.node
	if t := n.Schema().Time; t >= 0 || !s.nested {
		return t
	}
	if f, ok := n.(*plan.Filter); ok { // HAVING
		n = f.Input
	}
	if a, ok := n.(*plan.Aggregate); ok && a.Windowed {
		return a.WindowEnd
	}
	return -1
}

// timed adds the time of a sub-query's rows, if it did not select it. It is named
// timestamp, unless another column is.
func (s *selected) timed() {
	t := s.time()
	if t < 0 || s.sel.Distinct || s.project().Out.Time >= 0 {
		return
	}
	f := s.in.fields()[t]
	name := "timestamp"
	switch {
	case f.Type != types.Timestamp:
		name = f.Name
	case !slices.Contains(s.names, name):
	case s.aggregated:
		name = "end of the window"
	default:
		name = "time of " + f.Qualifier
	}
	s.exprs = append(s.exprs, &plan.Col{Index: t, Name: name, T: f.Type})
}

// misnamed reports whether a column named timestamp is not the time of the source's rows.
func (s *selected) misnamed() bool {
	t := s.project().Out.Time
	if t < 0 {
		return false
	}
	i := slices.Index(s.names, "timestamp")
	return i >= 0 && i != t && s.exprs[i].Type() == types.Timestamp
}

// tail adds projection, DISTINCT, ORDER BY and LIMIT.
func (r *resolver) tail(q *parser.Query, s *selected, lv level) (*scope, error) {
	visible := len(s.exprs)
	if s.nested = lv != top; s.nested {
		s.timed()
	}
	given := len(s.exprs)
	keys, err := r.orderBy(q, s)
	if err != nil {
		return nil, err
	}
	if len(s.exprs) > given && s.sel.Distinct {
		return nil, r.errorf(q.OrderBy[0].Pos(), "with SELECT DISTINCT, ORDER BY can only use selected columns")
	}
	ordered := len(keys) > 0
	keys = r.orderByHost(keys, s)
	borders, err := r.addBorders(q, s)
	if err != nil {
		return nil, err
	}
	var node plan.Node = s.project()
	r.noteBorders(node, borders)
	if s.sel.Distinct {
		node = &plan.Distinct{Input: node, PerFlush: s.aggregated || s.windowed}
		r.placeOf(node, s.sel.Pos(), s.sel)
	}
	if len(keys) > 0 {
		if !s.in.finite && !s.aggregated && !s.windowed && q.For == nil && emitOf(q).Mode != plan.Every {
			return nil, r.hintf(q.OrderBy[0].Pos(), "add FOR 10s, EMIT EVERY 1s, or a window such as TUMBLE(stream, 1s)",
				"ORDER BY needs all rows, and this query has no end")
		}
		sort := &plan.Sort{Input: node, Keys: keys}
		if !s.aggregated {
			sort.Emit = emitOf(q)
		}
		node = sort
		r.placeOf(node, q.Pos(), s.sel)
		if r.shared() && lv == top {
			r.share.order = node
		}
		if len(s.exprs) > given && !r.shared() {
			node = narrow(node, given)
		}
	}
	if q.Limit != nil {
		if q.Limit.Int < 0 {
			return nil, r.errorf(q.Limit.Pos(), "LIMIT needs a number that is not negative")
		}
		limit := &plan.Limit{Input: node, N: q.Limit.Int, PerFlush: ordered || s.aggregated || s.windowed}
		if q.Offset != nil {
			if limit.Skip = q.Offset.Int; limit.Skip < 0 {
				return nil, r.errorf(q.Offset.Pos(), "OFFSET needs a number that is not negative")
			}
		}
		node = limit
		r.placeOf(node, q.Pos(), s.sel)
	}
	if len(s.exprs) > given && r.shared() {
		node = narrow(node, given)
	}
	out := &scope{node: node, visible: visible, finite: s.in.finite, bare: s.in.bare}
	if s.nested {
		out.ends, out.misnamed = s.windowed && s.aggregated, s.misnamed()
		out.estimated = r.estimates() || s.in.estimated
	}
	return out, nil
}

// narrow keeps the first n columns.
func narrow(in plan.Node, n int) plan.Node {
	sch := in.Schema()
	p := &plan.Project{Input: in, Out: types.Schema{Fields: slices.Clone(sch.Fields[:n]), Time: sch.Time}}
	if sch.Time >= n {
		p.Out.Time = -1
	}
	for i, f := range p.Out.Fields {
		p.Exprs = append(p.Exprs, &plan.Col{Index: i, Name: f.Name, T: f.Type})
	}
	return p
}

// orderBy resolves ORDER BY to columns of the projection, adding those that are not
// selected.
func (r *resolver) orderBy(q *parser.Query, s *selected) ([]plan.SortKey, error) {
	var keys []plan.SortKey
	for _, o := range q.OrderBy {
		i, err := r.orderItem(o.X, s)
		if err != nil {
			return nil, err
		}
		x := s.exprs[i]
		if p := x.Type().Physical(); p == types.PhysAny {
			return nil, r.errorf(o.Pos(), "cannot order by a %s", x.Type())
		}
		name := x.String()
		if i < len(s.names) {
			name = s.names[i]
		}
		keys = append(keys, plan.SortKey{X: &plan.Col{Index: i, Name: name, T: x.Type()}, Desc: o.Desc})
	}
	return keys, nil
}

func (r *resolver) orderItem(x parser.Expr, s *selected) (int, error) {
	if lit, ok := x.(*parser.Literal); ok {
		if lit.Kind != parser.LitInt || lit.Int < 1 || lit.Int > int64(len(s.names)-s.lead) {
			return 0, r.errorf(x.Pos(), "ORDER BY %s: there are columns 1 to %d", lit.Text, len(s.names)-s.lead)
		}
		return int(lit.Int) - 1 + s.lead, nil
	}
	if ref, ok := x.(*parser.ColumnRef); ok && len(ref.Parts) == 1 {
		if i := slices.Index(s.names, ref.Parts[0].Name); i >= 0 {
			return i, nil
		}
	}
	e, err := s.ctx.resolve(x)
	if err != nil {
		return 0, err
	}
	for i, have := range s.exprs {
		if same(have, e) {
			return i, nil
		}
	}
	if s.union {
		return 0, r.errorf(x.Pos(), "after UNION ALL, ORDER BY can only use selected columns")
	}
	s.exprs = append(s.exprs, e)
	return len(s.exprs) - 1, nil
}
