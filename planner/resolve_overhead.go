package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// offBudget is the hint of a part of a statement that cannot be estimated.
const offBudget = "without WITHIN OVERHEAD the result is exact"

// budget determines what the whole statement may cost the program: by its clause, or by the
// session's setting.
func (r *resolver) budget(q *parser.Query) error {
	share, at := r.env.Overhead, q.Pos()
	if q.Overhead != nil {
		share, at = q.Overhead.F/100, q.Overhead.Pos()
		if share <= 0 || share >= 1 {
			return r.hintf(at, "WITHIN OVERHEAD 1%", "the overhead must be more than 0%% and less than 100%%")
		}
	}
	if share == 0 {
		return nil
	}
	if !r.ofFunctions(q) && q.Overhead == nil {
		return nil // the session's setting is about calls of functions
	}
	r.overhead = &plan.Budget{Share: share, Floor: r.env.OverheadFloor}
	return r.checkBudget(q, at)
}

// ofFunctions reports whether a SELECT of the statement names a stream of functions.
func (r *resolver) ofFunctions(q *parser.Query) bool {
	return slices.ContainsFunc(q.Selects, func(s *parser.Select) bool {
		st := budgeted(s.From)
		return st != nil && st.Functions
	})
}

// budgeted returns the stream of a FROM that is one stream, or its windows.
func budgeted(f *parser.From) *catalog.Stream {
	if f == nil || len(f.Joins) > 0 {
		return nil
	}
	s := f.First
	if (s.Kind == parser.SourceTumble || s.Kind == parser.SourceHop) && s.Src != nil {
		s = s.Src
	}
	if s.Kind != parser.SourceStream {
		return nil
	}
	return catalog.Find(strings.ToLower(s.Name.Name))
}

// checkBudget refuses what has no meaning if only some of the calls are seen.
func (r *resolver) checkBudget(q *parser.Query, at parser.Span) error {
	hint := offBudget
	if q.Overhead == nil {
		hint = "SET overhead = 0% gives exact results"
	}
	switch {
	case r.shared():
		return r.hintf(at, "query the hosts one by one", "an overhead cannot be given for several hosts together yet")
	case len(q.Selects) != 1:
		return r.hintf(at, hint, "the parts of a UNION cannot be estimated together")
	case q.Selects[0].From != nil && len(q.Selects[0].From.Joins) > 0:
		return r.hintf(q.Selects[0].From.Joins[0].Pos(), hint, "a join needs every call of its inputs, and within an overhead most are not seen")
	case q.Emit != nil && q.Emit.Mode == "CHANGES":
		return r.hintf(q.Emit.Pos(), "EMIT EVERY 1s", "EMIT CHANGES needs every call, and within an overhead most are not seen")
	}
	st := budgeted(q.Selects[0].From)
	switch {
	case st == nil:
		return r.hintf(at, hint, "an overhead can be given for one stream of functions and its windows, and nothing else")
	case !st.Functions || st.Name == catalog.Allocation || st.Name == catalog.Deallocation:
		return r.hintf(q.Selects[0].From.First.Pos(), hint, "%s cannot be estimated from a part of its tuples", st.Name)
	case st.Name == catalog.FunctionCall:
		return r.hintf(q.Selects[0].From.First.Pos(), hint, "%s is a sequence: it has no meaning with calls missing", st.Name)
	}
	return nil
}

// checkEstimated refuses aggregates that cannot be estimated.
func (r *resolver) checkEstimated(sel *selected, a *aggCtx) error {
	for i := range a.aggs {
		f := &a.aggs[i]
		if f.Distinct || !estimated[f.Fn] {
			return r.hintf(sel.sel.Pos(), offBudget, "%s cannot be estimated from a part of the calls", f)
		}
		if !plan.KernelAggregates(f) {
			return r.hintf(sel.sel.Pos(), offBudget, "%s cannot be computed in the kernel, which an overhead needs", f)
		}
	}
	return nil
}

// estimated are the aggregates that have estimates, or bounds on one side.
var estimated = map[string]bool{
	"count": true, "rate": true, "sum": true, "avg": true, "min": true, "max": true,
	"stddev": true, "variance": true, "quantile": true, "median": true, "histogram": true,
}

// checkFirstStages refuses a plan whose aggregate the kernel cannot begin: rows do not say in
// which slice they were seen.
func (r *resolver) checkFirstStages(root plan.Node) error {
	for _, leaf := range plan.Leaves(root) {
		if leaf.Budget == nil || leaf.Partial != nil {
			continue
		}
		hint := "GROUP BY columns such as function_name, tid or arg0, over the stream or TUMBLE(stream, 1s)"
		if r.env.NoKernel {
			hint = "SET kernel = on"
		}
		return r.hintf(parser.Span{Start: leaf.Start, Stop: leaf.Stop}, hint, "within an overhead the kernel must begin the aggregate, and cannot")
	}
	return nil
}

// addBounds adds the bounds of the selected estimates to the columns, behind them.
func (r *resolver) addBounds(s *selected, keys int) error {
	items := s.sel.Items
	for i, x := range slices.Clone(s.exprs) {
		if !slices.ContainsFunc(columnsIn(x), func(c int) bool { return c >= keys }) {
			continue
		}
		low, high, ok := boundsOf(x, keys)
		if !ok {
			at := s.sel.Pos()
			if i < len(items) {
				at = items[i].Pos()
			}
			return r.hintf(at, "select the aggregates themselves", "no interval is known for %s", s.names[i])
		}
		if low == nil { // it is a bound itself, or says how much was seen
			continue
		}
		for _, b := range []struct {
			name string
			of   types.Bound
			x    plan.Expr
		}{{plan.LowBound, types.Low, low}, {plan.HighBound, types.High, high}} {
			if s.bounds == nil {
				s.bounds = map[int]types.Bound{}
			}
			s.bounds[len(s.exprs)] = b.of
			s.exprs, s.names = append(s.exprs, b.x), append(s.names, b.name+"("+s.names[i]+")")
		}
	}
	return nil
}

// boundsOf returns the bounds of an expression over the output of an aggregate with
// estimates: nil if it has none of its own. ok is false if they are not known.
func boundsOf(x plan.Expr, keys int) (low, high plan.Expr, ok bool) {
	switch e := x.(type) {
	case *plan.Col:
		if e.Index < keys {
			return e, e, true
		}
		agg, part := (e.Index-keys)/plan.EstimateColumns, (e.Index-keys)%plan.EstimateColumns
		if part != 0 {
			return nil, nil, true
		}
		at := func(part int, name string) plan.Expr {
			return &plan.Col{Index: keys + agg*plan.EstimateColumns + part, Name: name + "(" + e.Name + ")", T: e.T}
		}
		return at(plan.EstimateLow, plan.LowBound), at(plan.EstimateHigh, plan.HighBound), true
	case *plan.Const:
		return e, e, true
	case *plan.Cast:
		low, high, ok = boundsOf(e.X, keys)
		if !ok || low == nil || !e.T.Numeric() {
			return nil, nil, false
		}
		return &plan.Cast{X: low, T: e.T}, &plan.Cast{X: high, T: e.T}, true
	case *plan.Call:
		return boundsOfCall(e, keys)
	}
	return nil, nil, false
}

// boundsOfCall returns the bounds of a function that rises or falls with its estimate.
func boundsOfCall(e *plan.Call, keys int) (low, high plan.Expr, ok bool) {
	if len(e.Args) != 2 {
		return nil, nil, false
	}
	with := func(i int, x plan.Expr) plan.Expr {
		c := *e
		c.Args = slices.Clone(e.Args)
		c.Args[i] = x
		return &c
	}
	for i, arg := range e.Args {
		k, constant := e.Args[1-i].(*plan.Const)
		if !constant || k.V.IsNull || !k.V.Type.Numeric() {
			continue
		}
		low, high, ok = boundsOf(arg, keys)
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

// columnsIn returns the indexes of the columns that an expression reads.
func columnsIn(x plan.Expr) (list []int) {
	plan.Walk(x, func(e plan.Expr) {
		if c, ok := e.(*plan.Col); ok {
			list = append(list, c.Index)
		}
	})
	return list
}

// estimateParts are the functions of an estimate, with the column of each.
var estimateParts = map[string]int{
	plan.LowBound: plan.EstimateLow, plan.HighBound: plan.EstimateHigh, "exact": plan.EstimateExact, "share": plan.EstimateShare,
}

// ofEstimate resolves low(COUNT(*)), high(COUNT(*)), exact(COUNT(*)) and share(COUNT(*)).
// Without an overhead each result is exact.
func (c *exprCtx) ofEstimate(name string, e *parser.Call) (plan.Expr, error) {
	x, err := c.resolve(e.Args[0].X)
	if err != nil {
		return nil, err
	}
	col, ok := x.(*plan.Col)
	keys := len(c.agg.keys)
	if !ok || col.Index < keys || (col.Index-keys)%c.agg.width() != 0 {
		return nil, c.r.hintf(e.Args[0].Pos(), name+"(COUNT(*))", "%s takes an aggregate", name)
	}
	part := estimateParts[name]
	out := &plan.Col{Index: col.Index + part, Name: name + "(" + col.Name + ")", T: plan.EstimateType(part, col.T)}
	switch {
	case c.r.overhead != nil:
		return out, nil
	case part == plan.EstimateExact:
		return &plan.Const{V: types.Bool(true)}, nil
	case part == plan.EstimateShare:
		return &plan.Const{V: types.Float(1)}, nil
	}
	return x, nil
}

// isOfEstimate reports whether a call is one that ofEstimate resolves.
func (c *exprCtx) isOfEstimate(name string, e *parser.Call) bool {
	_, is := estimateParts[name]
	return is && c.agg != nil && len(e.Args) == 1 && e.Args[0].Name == nil && !e.Star && hasAggregate(e.Args[0].X)
}

// width returns the number of columns of each aggregate.
func (a *aggCtx) width() int {
	if a.r.overhead != nil {
		return plan.EstimateColumns
	}
	return 1
}

// confidence is that of the intervals of estimates, unless the statement gives another.
const confidence = 0.95

// precision resolves ERROR WITHIN ... AT CONFIDENCE ... of a statement whose budget is known.
func (r *resolver) precision(q *parser.Query) error {
	r.confidence = confidence
	p := q.Precision
	if p == nil {
		return nil
	}
	const example = "ERROR WITHIN 5% AT CONFIDENCE 95% WITHIN OVERHEAD 1%"
	switch st := q.Selects[0]; {
	case r.overhead == nil:
		return r.hintf(p.Pos(), example, "ERROR WITHIN needs WITHIN OVERHEAD: without that clause results are exact")
	case p.Error.F <= 0 || p.Error.F >= 100:
		return r.hintf(p.Error.Pos(), example, "the error must be more than 0%% and less than 100%%")
	case p.Confidence != nil && (p.Confidence.F < 50 || p.Confidence.F >= 100):
		return r.hintf(p.Confidence.Pos(), example, "the confidence must be at least 50%% and less than 100%%")
	case st.From.First.Kind != parser.SourceStream:
		return r.hintf(p.Pos(), "leave out TUMBLE or HOP, or ERROR WITHIN", "ERROR WITHIN ends a query of totals, and the windows of this one end by time")
	}
	r.within = p
	if p.Confidence != nil {
		r.confidence = p.Confidence.F / 100
	}
	return nil
}

// checkPrecise refuses aggregates that ERROR WITHIN would wait for in vain.
func (r *resolver) checkPrecise(a *aggCtx) error {
	if r.within == nil {
		return nil
	}
	for i := range a.aggs {
		if !plan.TwoBounds(&a.aggs[i]) {
			return r.hintf(r.within.Pos(), "leave it out, or ERROR WITHIN", "%s never has bounds on both sides of a number, and is not known within %s", &a.aggs[i], r.within.Error)
		}
	}
	return nil
}

// errorWithin returns the largest relative error that the statement accepts; 0 if it gives none.
func (r *resolver) errorWithin() float64 {
	if r.within == nil {
		return 0
	}
	return r.within.Error.F / 100
}

// misplacedPrecision refuses ERROR WITHIN in a query that is not the whole statement.
func (r *resolver) misplacedPrecision(q *parser.Query) error {
	if q.Precision == nil {
		return nil
	}
	return r.hintf(q.Precision.Pos(), "write it at the end of the statement, before WITHIN OVERHEAD", "%s belongs at the end of the whole statement", q.Precision)
}
