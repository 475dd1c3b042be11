package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// aggCtx collects the keys and aggregates of one SELECT while its expressions
// are resolved over the aggregate's output.
type aggCtx struct {
	r       *resolver
	inner   *exprCtx // over the aggregate's input
	grouped bool     // there is a GROUP BY
	keys    []plan.Expr
	names   []string // of keys
	aggs    []plan.Agg
}

// key returns the output column of an expression in GROUP BY; nil if it is not one.
func (a *aggCtx) key(e parser.Expr) (plan.Expr, bool) {
	if hasAggregate(e) || len(a.keys) == 0 {
		return nil, false
	}
	switch e.(type) {
	case *parser.Literal:
		return nil, false
	}
	notices := len(a.r.notices)
	x, err := a.inner.resolve(e)
	a.r.notices = a.r.notices[:notices]
	if err != nil {
		return nil, false
	}
	return a.keyCol(x)
}

func (a *aggCtx) keyCol(x plan.Expr) (plan.Expr, bool) {
	for i, k := range a.keys {
		if same(k, x) {
			return &plan.Col{Index: i, Name: a.names[i], T: k.Type()}, true
		}
	}
	return nil, false
}

// column resolves a column of the input outside any aggregate.
func (a *aggCtx) column(x plan.Expr, name string, pos parser.Span) (plan.Expr, error) {
	if k, ok := a.keyCol(x); ok {
		return k, nil
	}
	if !a.grouped {
		return nil, a.r.hintf(pos, "add GROUP BY "+name+", or aggregate it: LAST("+name+")",
			"%s is neither grouped nor aggregated", name)
	}
	a.r.notice("%s is neither grouped nor aggregated: its last value in each group is shown (LAST(%s))", name, name)
	return a.add(plan.Agg{Fn: "last", Args: []plan.Expr{x}, T: x.Type()}), nil
}

// add returns the output column of an aggregate, adding it if it is new.
func (a *aggCtx) add(agg plan.Agg) plan.Expr {
	text := agg.String()
	i := slices.IndexFunc(a.aggs, func(have plan.Agg) bool { return sameAgg(have, agg) })
	if i < 0 {
		i = len(a.aggs)
		a.aggs = append(a.aggs, agg)
	}
	return &plan.Col{Index: len(a.keys) + a.width()*i, Name: text, T: agg.T}
}

// aggregate resolves the grouped SELECT s down to its Aggregate node, HAVING
// and items.
func (r *resolver) aggregate(s *selected, q *parser.Query) error {
	inner := &exprCtx{r: r, in: s.in, clause: "GROUP BY"}
	a := &aggCtx{r: r, inner: inner, grouped: len(s.sel.GroupBy) > 0}
	for _, g := range s.sel.GroupBy {
		e, err := r.groupItem(g, s.sel)
		if err != nil {
			return err
		}
		x, err := inner.resolve(e)
		if err != nil {
			return err
		}
		if x.Type() == types.Encoding {
			return r.errorf(g.Pos(), "cannot group by an %s", x.Type())
		}
		x = untypedNull(x)
		if r.ownHost(x) {
			continue // its value is constant in the result of a host
		}
		if _, have := a.keyCol(x); !have {
			a.keys, a.names = append(a.keys, x), append(a.names, x.String())
		}
	}
	node := &plan.Aggregate{Input: s.in.node, Windowed: s.windowed, Emit: emitOf(q), Out: types.Schema{Time: -1}}
	if s.windowed {
		fields := s.in.fields()
		for _, name := range []string{"window_start", "window_end"} {
			i, _ := s.in.column("", name)
			x := &plan.Col{Index: i, Name: name, T: fields[i].Type}
			if _, have := a.keyCol(x); !have {
				a.keys, a.names = append(a.keys, x), append(a.names, name)
			}
		}
		node.WindowEnd = slices.Index(a.names, "window_end")
	}
	// The context resolves over the input and returns columns of the output.
	s.ctx = &exprCtx{r: r, in: s.in, agg: a, clause: "SELECT"}
	if err := r.items(s); err != nil {
		return err
	}
	var having plan.Expr
	if s.sel.Having != nil {
		ctx := *s.ctx
		ctx.clause = "HAVING"
		var err error
		if having, err = ctx.boolean(s.sel.Having); err != nil {
			return err
		}
	}
	// ORDER BY may contain further aggregates. Resolving it here collects them before the
	// node is created; resolving it again later finds them.
	for _, o := range q.OrderBy {
		if len(q.Selects) == 1 {
			if _, err := r.orderItem(o.X, &selected{sel: s.sel, ctx: s.ctx, exprs: slices.Clone(s.exprs), names: s.names}); err != nil {
				return err
			}
		}
	}
	if len(a.keys)+len(a.aggs) == 0 {
		a.keys, a.names = []plan.Expr{&plan.Host{}}, []string{plan.HostColumn}
	}
	node.Keys, node.Aggs = a.keys, a.aggs
	if r.samplesRows {
		if err := r.checkGaps(s, a); err != nil {
			return err
		}
	}
	if r.estimates() {
		if err := r.checkEstimated(s, a); err != nil {
			return err
		}
		if err := r.checkPrecise(a); err != nil {
			return err
		}
		node.Confidence, node.Precision = r.confidence, r.errorWithin()
		node.Derived = a.derive(s)
		if err := r.addBounds(s, a.bounds); err != nil {
			return err
		}
	}
	r.placeOf(node, s.sel.Pos(), s.sel)
	for i, k := range a.keys {
		node.Out.Fields = append(node.Out.Fields, types.Field{Name: a.names[i], Type: k.Type()})
	}
	for i := range a.aggs {
		fields := plan.EstimateFields(a.aggs[i].String(), a.aggs[i].T)
		node.Out.Fields = append(node.Out.Fields, fields[:node.Width()]...)
	}
	for _, x := range node.Derived {
		node.Out.Fields = append(node.Out.Fields, plan.EstimateFields(x.String(), x.Type())...)
	}
	var over plan.Node = node
	if having != nil {
		over = &plan.Filter{Input: node, Cond: having}
	}
	in := *s.in
	in.node = over
	s.in = &in
	return nil
}

// groupItem replaces an ordinal or an output alias by the item it refers to.
func (r *resolver) groupItem(g parser.Expr, sel *parser.Select) (parser.Expr, error) {
	if lit, ok := g.(*parser.Literal); ok && lit.Kind == parser.LitInt {
		if lit.Int < 1 || lit.Int > int64(len(sel.Items)) || sel.Items[lit.Int-1].Star {
			return nil, r.errorf(g.Pos(), "GROUP BY %s: there are items 1 to %d", lit.Text, len(sel.Items))
		}
		g = sel.Items[lit.Int-1].X
	} else if ref, ok := g.(*parser.ColumnRef); ok && len(ref.Parts) == 1 {
		for _, it := range sel.Items {
			if it.Alias != nil && it.Alias.Name == ref.Parts[0].Name {
				g = it.X
			}
		}
	}
	if hasAggregate(g) {
		return nil, r.errorf(g.Pos(), "cannot group by an aggregate")
	}
	return g, nil
}

// laterFunctions are known functions that are not implemented in this version.
var laterFunctions = map[string]bool{}

func init() {
	for _, n := range strings.Fields(`format_stack frame hierarchy_consecutive`) {
		laterFunctions[n] = true
	}
}

// NearestFunctions returns a hint with functions similar to name; "" if there are none.
func NearestFunctions(name string) (hint string) {
	names := slices.Sorted(maps.Keys(pointerReaders))
	for i := range plan.Scalars {
		if name := plan.Scalars[i].Name; !strings.Contains(name, ".") { // a field of a result
			names = append(names, name)
		}
	}
	for i := range plan.Encoders {
		names = append(names, plan.Encoders[i].Name)
	}
	for _, table := range [][]plan.AggFunc{plan.AggFuncs, plan.StackAggs, plan.SketchAggs, plan.PresentAggs} {
		for i := range table {
			names = append(names, table[i].Name)
		}
	}
	return plan.DidYouMean(name, names)
}

const namedHint = "only encoders have arguments with names: AUTOMATON(function_name, k => 3)"

// call resolves a function or an aggregate.
func (c *exprCtx) call(e *parser.Call) (plan.Expr, error) {
	written := strings.ToUpper(e.Name.Name)
	e, err := c.quantileCall(e)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(e.Name.Name)
	if e.Field != nil {
		if name, err = c.fieldOf(e, name); err != nil {
			return nil, err
		}
	}
	if name == "label" && len(e.Args) == 1 {
		e = withLabels(e)
	}
	if f := plan.FindAgg(name); f != nil {
		return c.aggCall(f, e, written)
	}
	if c.isOfEstimate(name, e) {
		return c.ofEstimate(name, e)
	}
	if readsPointer(name, e) {
		return c.pointerReader(name, e)
	}
	if name == plan.HostLabel {
		return c.hostLabel(e)
	}
	f := plan.FindScalar(name)
	if f == nil || f.Name[0] < 'a' || f.Name[0] > 'z' || strings.Contains("and or not neg like ilike is null", name) {
		if laterFunctions[name] {
			return nil, c.r.errorf(e.Name.Pos(), "%s is not supported yet", strings.ToUpper(name))
		}
		hint := cmp.Or(NearestFunctions(name), "the manual has them: help functions")
		if s := catalog.Find(name); s != nil {
			hint = s.Name + " is a stream"
		}
		return nil, c.r.hintf(e.Name.Pos(), hint, "there is no function %s", e.Name.Name)
	}
	if e.Star || e.Distinct || e.Filter != nil {
		return nil, c.r.errorf(e.Pos(), "%s is not an aggregate: it takes no *, DISTINCT or FILTER", name)
	}
	var args []plan.Expr
	for _, a := range e.Args {
		if a.Name != nil {
			return nil, c.r.hintf(a.Name.Pos(), namedHint, "%s has no argument called %s", name, a.Name.Name)
		}
		x, err := c.resolve(a.X)
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	return c.apply(name, e.Pos(), args...)
}

// fieldOf returns the function that computes a field of a function's result.
func (c *exprCtx) fieldOf(e *parser.Call, name string) (string, error) {
	field := strings.ToLower(e.Field.Name)
	switch {
	case name != "frame":
		return "", c.r.hintf(e.Field.Pos(), "frame(stack, 2).line has: function, module, file, line and inlined", "%s has no fields", name)
	case field == "function":
		return name, nil
	case plan.FindScalar(name+"."+field) == nil:
		fields := []string{"function", "module", "file", "line", "inlined"}
		return "", c.r.hintf(e.Field.Pos(), cmp.Or(plan.DidYouMean(field, fields), "a frame has function, module, file, line and inlined"), "a frame has no field %s", e.Field.Name)
	}
	return name + "." + field, nil
}

// aggCall resolves the call of an aggregate; upper is its name as errors have it.
func (c *exprCtx) aggCall(f *plan.AggFunc, e *parser.Call, upper string) (plan.Expr, error) {
	if c.agg == nil {
		hint := ""
		if c.clause == "WHERE" {
			hint = "conditions on aggregates belong in HAVING"
		}
		return nil, c.r.hintf(e.Pos(), hint, "%s is an aggregate and cannot be used in %s", upper, c.where())
	}
	out := plan.Agg{Fn: f.Name, Star: e.Star, Distinct: e.Distinct}
	inner := c.agg.inner
	switch {
	case e.Star && !f.Star:
		return nil, c.r.errorf(e.Pos(), "%s(*) is not defined: name a column", upper)
	case e.Star && len(e.Args) > 0:
		return nil, c.r.errorf(e.Pos(), "%s takes either * or an argument", upper)
	case !e.Star && f.Args == nil:
		return nil, c.r.errorf(e.Pos(), "write %s(*)", upper)
	case e.Distinct && !f.Distinct:
		return nil, c.r.errorf(e.Pos(), "%s does not take DISTINCT", upper)
	case e.Distinct && e.Star:
		return nil, c.r.errorf(e.Pos(), "COUNT(DISTINCT *) is not defined: name a column")
	}
	for _, a := range e.Args {
		if a.Name != nil && f.Encoder == nil {
			return nil, c.r.hintf(a.Name.Pos(), cmp.Or(argumentHint(f), namedHint), "%s has no argument called %s", upper, a.Name.Name)
		}
	}
	if f.Encoder != nil {
		if err := c.encoderCall(f, e, &out); err != nil {
			return nil, err
		}
	} else if !e.Star {
		if len(e.Args) == 0 {
			return nil, c.r.hintf(e.Pos(), argumentHint(f), "%s needs an argument", upper)
		}
		x, err := (&exprCtx{r: c.r, in: inner.in, clause: "an aggregate"}).resolve(e.Args[0].X)
		if err != nil {
			return nil, err
		}
		x = untypedNull(x)
		if x.Type() == types.Null && !slices.Contains(f.Args, plan.AnyType) {
			x = &plan.Cast{X: x, T: f.Args[0]} // until the type is known
		}
		if !slices.Contains(f.Args, plan.AnyType) && !slices.Contains(f.Args, x.Type()) || x.Type().Physical() == types.PhysAny && f.More == nil {
			return nil, c.r.errorf(e.Args[0].Pos(), "%s does not take a %s", upper, x.Type())
		}
		out.Args = []plan.Expr{x}
		out.T = f.Result(x.Type())
		params := e.Args[1:]
		for i := 0; i < len(f.More) && len(params) > 0; i++ {
			x, err := (&exprCtx{r: c.r, in: inner.in, clause: "an aggregate"}).resolve(params[0].X)
			if err != nil {
				return nil, err
			}
			if x = untypedNull(x); x.Type() != f.More[i] {
				return nil, c.r.hintf(params[0].Pos(), argumentHint(f), "%s needs a %s here", upper, f.More[i])
			}
			out.Args, params = append(out.Args, x), params[1:]
		}
		if len(params) != len(f.Params) && !(f.Optional > 0 && len(params) == len(f.Params)-f.Optional) {
			return nil, c.r.hintf(e.Pos(), argumentHint(f), "%s takes %d arguments, not %d", upper, 1+len(f.More)+len(f.Params), len(e.Args))
		}
		for i, p := range params {
			k, err := c.constant(p.X, upper)
			if err != nil {
				return nil, err
			}
			want := f.Params[i]
			if want == types.Double && k.V.Type == types.Duration {
				k = &plan.Const{V: types.Float(float64(k.V.I))} // the borders of a histogram of durations
			}
			v, ok := coerce(k, want).(*plan.Const)
			if !ok || v.V.IsNull || v.V.Type != want {
				return nil, c.r.hintf(p.Pos(), argumentHint(f), "%s needs a number here", upper)
			}
			out.Params = append(out.Params, v.V)
		}
		if err := c.checkParams(&out, e); err != nil {
			return nil, err
		}
	} else {
		out.T = f.Result(types.Invalid)
	}
	if e.Filter != nil {
		x, err := (&exprCtx{r: c.r, in: inner.in, clause: "FILTER"}).boolean(e.Filter)
		if err != nil {
			return nil, err
		}
		out.Filter = x
	}
	return c.agg.add(out), nil
}

func (c *exprCtx) where() string {
	if c.clause == "an aggregate" {
		return "another aggregate"
	}
	return c.clause
}

func argumentHint(f *plan.AggFunc) string {
	switch f.Name {
	case "quantile", plan.PercentileCont:
		return "for example QUANTILE(duration, 0.99)"
	case "topk":
		return "for example TOPK(function_name, 10)"
	case "trie":
		return "TRIE(stack, state, syscall)"
	case "live_objects", "invocation_tree", "wait_graph", "object_graph":
		usage, _, _ := strings.Cut(f.Doc, ":")
		return usage
	case "histogram":
		return "HISTOGRAM(x), or HISTOGRAM(x, low, high, step)"
	}
	return ""
}

// checkParams rejects constants that an aggregate cannot work with.
func (c *exprCtx) checkParams(a *plan.Agg, e *parser.Call) error {
	switch {
	case (a.Fn == "quantile" || a.Fn == "sketch_quantile" || a.Fn == plan.PercentileCont) && !(a.Params[0].F >= 0 && a.Params[0].F <= 1):
		return c.r.hintf(e.Args[1].Pos(), argumentHint(plan.FindAgg("quantile")), "a quantile lies between 0 and 1")
	case a.Fn == "topk" && (a.Params[0].I < 1 || a.Params[0].I > 10000):
		return c.r.errorf(e.Args[len(e.Args)-1].Pos(), "TOPK returns between 1 and 10,000 values")
	case a.Fn == "histogram" && len(a.Params) == 3:
		lo, hi, step := a.Params[0].F, a.Params[1].F, a.Params[2].F
		if !(step > 0) || !(hi > lo) || (hi-lo)/step > 10000 {
			return c.r.errorf(e.Pos(), "HISTOGRAM(x, low, high, step) needs low < high and at most 10,000 steps")
		}
	}
	return nil
}

// hasAggregate reports whether e contains an aggregate call.
func hasAggregate(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.Call:
		if plan.FindAgg(strings.ToLower(e.Name.Name)) != nil {
			return true
		}
		return slices.ContainsFunc(e.Args, func(a *parser.Arg) bool { return hasAggregate(a.X) })
	case *parser.Unary:
		return hasAggregate(e.X)
	case *parser.Binary:
		return hasAggregate(e.X) || hasAggregate(e.Y)
	case *parser.Between:
		return hasAggregate(e.X) || hasAggregate(e.Lo) || hasAggregate(e.Hi)
	case *parser.In:
		return hasAggregate(e.X)
	case *parser.IsNull:
		return hasAggregate(e.X)
	case *parser.Cast:
		return hasAggregate(e.X)
	case *parser.Read:
		return hasAggregate(e.X)
	case *parser.Case:
		found := e.X != nil && hasAggregate(e.X) || e.Else != nil && hasAggregate(e.Else)
		for _, w := range e.Whens {
			found = found || hasAggregate(w.Cond) || hasAggregate(w.Then)
		}
		return found
	}
	return false
}

// withLabels returns label(labels, 'app') for label('app').
func withLabels(e *parser.Call) *parser.Call {
	labels := &parser.ColumnRef{Span: e.Span, Parts: []*parser.Ident{{Span: e.Span, Name: "labels"}}}
	full := *e
	full.Args = append([]*parser.Arg{{Span: e.Span, X: labels}}, e.Args...)
	return &full
}

// same reports whether two expressions over one input are equal. Comparing texts is not
// enough: columns of both sides of a join may have one name.
func same(a, b plan.Expr) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.String() == b.String() && a.Type() == b.Type() && slices.Equal(columnsOf(a), columnsOf(b))
}

// sameAgg is same for aggregates.
func sameAgg(a, b plan.Agg) bool {
	return a.String() == b.String() && slices.EqualFunc(a.Args, b.Args, same) && same(a.Filter, b.Filter)
}

// columnsOf lists the indexes of the columns that an expression reads, in order.
func columnsOf(e plan.Expr) (out []int) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			out = append(out, c.Index)
		}
	})
	return out
}
