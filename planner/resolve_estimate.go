package planner

import (
	"slices"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// boundsIn returns the bounds of a column that is an estimate. is is false if it is none, and
// low is nil if it is a bound itself, or says how much was seen.
type boundsIn func(c *plan.Col) (low, high plan.Expr, is bool)

// bounds returns those of the output of an aggregate with estimates.
func (a *aggCtx) bounds(c *plan.Col) (low, high plan.Expr, is bool) {
	keys := len(a.keys)
	if c.Index < keys {
		return nil, nil, false
	}
	agg, part := (c.Index-keys)/plan.EstimateColumns, (c.Index-keys)%plan.EstimateColumns
	if part != 0 {
		return nil, nil, true
	}
	at := func(part int, name string) plan.Expr {
		return &plan.Col{Index: keys + agg*plan.EstimateColumns + part, Name: name + "(" + c.Name + ")", T: c.T}
	}
	return at(plan.EstimateLow, plan.LowBound), at(plan.EstimateHigh, plan.HighBound), true
}

// bounds returns those of the columns of a source.
func (s *scope) bounds(c *plan.Col) (low, high plan.Expr, is bool) {
	fields := s.fields()
	at := func(b types.Bound, name string) plan.Expr {
		i := slices.IndexFunc(fields, func(f types.Field) bool { return f.Bound == b && f.Name == name+"("+fields[c.Index].Name+")" })
		if i < 0 {
			return nil
		}
		return &plan.Col{Index: i, Name: fields[i].Name, T: fields[i].Type}
	}
	if fields[c.Index].Bound != types.NoBound {
		return nil, nil, true
	}
	low, high = at(types.Low, plan.LowBound), at(types.High, plan.HighBound)
	return low, high, low != nil && high != nil
}

// addBounds adds the bounds of the selected estimates to the columns, behind them, unless they
// are selected by their names. What is computed from bounds only is no estimate.
func (r *resolver) addBounds(s *selected, in boundsIn) error {
	items := s.sel.Items
	s.bounds = map[int]types.Bound{}
	for i, x := range slices.Clone(s.exprs) {
		if !slices.ContainsFunc(colsIn(x), func(c *plan.Col) bool { low, _, is := in(c); return is && low != nil }) {
			continue
		}
		low, high, ok := boundsOf(x, in)
		if !ok {
			at := s.sel.Pos()
			if i < len(items) {
				at = items[i].Pos()
			}
			return r.hintf(at, "select the aggregates themselves", "no interval is known for %s", s.names[i])
		}
		for _, b := range []struct {
			name string
			of   types.Bound
			x    plan.Expr
		}{{plan.LowBound, types.Low, low}, {plan.HighBound, types.High, high}} {
			name := b.name + "(" + s.names[i] + ")"
			at := slices.IndexFunc(s.exprs, func(x plan.Expr) bool { return same(x, b.x) })
			if at < 0 || s.names[at] != name {
				at = len(s.exprs)
				s.exprs, s.names = append(s.exprs, b.x), append(s.names, name)
			}
			s.bounds[at] = b.of
		}
	}
	return nil
}

// derive returns the selected expressions whose bounds do not follow from those of the aggregates
// in them, but can be estimated. Their columns follow those of the aggregates.
func (a *aggCtx) derive(s *selected) (derived []plan.Expr) {
	for i, x := range s.exprs {
		if _, _, ok := boundsOf(x, a.bounds); ok {
			continue
		}
		whole := true // it reads nothing but aggregates
		over := plan.Transform(x, func(e plan.Expr) plan.Expr {
			c, ok := e.(*plan.Col)
			if !ok {
				return e
			}
			low, _, is := a.bounds(c)
			whole = whole && is && low != nil
			return &plan.Col{Index: (c.Index - len(a.keys)) / plan.EstimateColumns, Name: c.Name, T: c.T}
		})
		if !whole || !plan.Derives(over, a.aggs) {
			continue
		}
		s.exprs[i] = &plan.Col{Index: len(a.keys) + plan.EstimateColumns*(len(a.aggs)+len(derived)), Name: x.String(), T: x.Type()}
		derived = append(derived, over)
	}
	return derived
}

// rising are functions of one number that do not fall while it rises.
var rising = []string{"to_us", "to_ms", "to_s", "to_min", "sqrt", "ln", "log2", "floor", "ceil", "round"}

// boundsOf returns the bounds of an expression: nil if it has none of its own. ok is false if
// they are not known.
func boundsOf(x plan.Expr, in boundsIn) (low, high plan.Expr, ok bool) {
	switch e := x.(type) {
	case *plan.Col:
		if low, high, is := in(e); is {
			return low, high, true
		}
		return e, e, true
	case *plan.Const:
		return e, e, true
	case *plan.Cast:
		low, high, ok = boundsOf(e.X, in)
		if !ok || low == nil || !e.T.Numeric() {
			return nil, nil, false
		}
		return &plan.Cast{X: low, T: e.T}, &plan.Cast{X: high, T: e.T}, true
	case *plan.Call:
		return boundsOfCall(e, in)
	}
	return nil, nil, false
}

// boundsOfCall returns the bounds of a function that rises or falls with its estimate.
func boundsOfCall(e *plan.Call, in boundsIn) (low, high plan.Expr, ok bool) {
	with := func(i int, x plan.Expr) plan.Expr {
		c := *e
		c.Args = slices.Clone(e.Args)
		c.Args[i] = x
		return &c
	}
	if len(e.Args) == 0 {
		return nil, nil, false
	}
	_, number := e.Args[len(e.Args)-1].(*plan.Const) // round(x, 2)
	if e.Fn == "neg" || slices.Contains(rising, e.Fn) && (len(e.Args) == 1 || number) {
		if low, high, ok = boundsOf(e.Args[0], in); !ok || low == nil {
			return nil, nil, false
		}
		if e.Fn == "neg" {
			low, high = high, low
		}
		return with(0, low), with(0, high), true
	}
	if len(e.Args) != 2 {
		return nil, nil, false
	}
	for i, arg := range e.Args {
		k, constant := e.Args[1-i].(*plan.Const)
		if !constant || k.V.IsNull || !k.V.Type.Numeric() {
			continue
		}
		low, high, ok = boundsOf(arg, in)
		if !ok || low == nil {
			return nil, nil, false
		}
		falls := k.V.I < 0 || k.V.F < 0
		switch e.Fn {
		case "+":
			falls = false
		case "-":
			falls = i == 1
		case "*":
		case "/":
			if i == 1 {
				return nil, nil, false
			}
		default:
			return nil, nil, false
		}
		if falls {
			low, high = high, low
		}
		return with(i, low), with(i, high), true
	}
	return nil, nil, false
}

// colsIn returns the columns that an expression reads.
func colsIn(x plan.Expr) (list []*plan.Col) {
	plan.Walk(x, func(e plan.Expr) {
		if c, ok := e.(*plan.Col); ok {
			list = append(list, c)
		}
	})
	return list
}

// estimateParts are the functions of an estimate, with the column of each.
var estimateParts = map[string]int{
	plan.LowBound: plan.EstimateLow, plan.HighBound: plan.EstimateHigh, "exact": plan.EstimateExact, "share": plan.EstimateShare,
}

// ofEstimate resolves low(COUNT(*)), high(COUNT(*)), exact(COUNT(*)) and share(COUNT(*)), and
// the first three of a column of a sub-query. Without an overhead each result is exact.
func (c *exprCtx) ofEstimate(name string, e *parser.Call) (plan.Expr, error) {
	x, err := c.resolve(e.Args[0].X)
	if err != nil {
		return nil, err
	}
	col, ok := x.(*plan.Col)
	if c.agg == nil && ok {
		return c.ofEstimated(name, e, col)
	}
	keys := 0
	if c.agg != nil {
		keys = len(c.agg.keys)
	}
	if !ok || col.Index < keys || (col.Index-keys)%c.agg.width() != 0 {
		return nil, c.r.hintf(e.Args[0].Pos(), name+"(COUNT(*))", "%s takes an aggregate", name)
	}
	part := estimateParts[name]
	out := &plan.Col{Index: col.Index + part, Name: name + "(" + col.Name + ")", T: plan.EstimateType(part, col.T)}
	switch {
	case c.r.estimates():
		return out, nil
	case part == plan.EstimateExact:
		return &plan.Const{V: types.Bool(true)}, nil
	case part == plan.EstimateShare:
		return &plan.Const{V: types.Float(1)}, nil
	}
	return x, nil
}

// ofEstimated resolves low(n), high(n) and exact(n) of a column n of a sub-query.
func (c *exprCtx) ofEstimated(name string, e *parser.Call, col *plan.Col) (plan.Expr, error) {
	low, high, is := c.in.bounds(col)
	switch {
	case !is || low == nil:
		return nil, c.r.hintf(e.Args[0].Pos(), "FROM (SELECT COUNT(*) AS n FROM function_start ... WITHIN OVERHEAD 1%)", "%s takes an estimate, and %s is none", name, col.Name)
	case name == plan.LowBound:
		return low, nil
	case name == plan.HighBound:
		return high, nil
	case name == "share":
		return nil, c.r.hintf(e.Pos(), "select share(COUNT(*)) in the sub-query", "which share was seen is not among the columns of the sub-query")
	}
	equal := &plan.Call{Fn: "=", Args: []plan.Expr{low, high}, T: types.Boolean}
	return &plan.Call{Fn: "coalesce", Args: []plan.Expr{equal, &plan.Const{V: types.Bool(false)}}, T: types.Boolean}, nil
}

// isOfEstimate reports whether a call is one that ofEstimate resolves.
func (c *exprCtx) isOfEstimate(name string, e *parser.Call) bool {
	_, is := estimateParts[name]
	return is && len(e.Args) == 1 && e.Args[0].Name == nil && !e.Star && (c.agg != nil && hasAggregate(e.Args[0].X) || c.agg == nil && c.in.estimated)
}

// width returns the number of columns of each aggregate.
func (a *aggCtx) width() int {
	if a.r.estimates() {
		return plan.EstimateColumns
	}
	return 1
}
