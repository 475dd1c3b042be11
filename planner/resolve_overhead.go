package planner

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// offBudget returns the hint of a part of a statement that cannot be estimated.
func (r *resolver) offBudget() string {
	switch {
	case r.env.MostOverhead > 0:
		return "an administrator may change your limit, or query for you"
	case r.env.Overhead > 0:
		return "SET overhead = 0% gives exact results"
	}
	return "without WITHIN OVERHEAD the result is exact"
}

// budget determines what a query may cost the program: by its clause, or by the session's
// setting. A sub-query that has no clause is part of one that may have one.
func (r *resolver) budget(q *parser.Query, lv level) error {
	share, at := r.env.Overhead, q.Pos()
	if q.Overhead != nil {
		share, at = q.Overhead.F/100, q.Overhead.Pos()
		if share <= 0 || share >= 1 {
			return r.hintf(at, "WITHIN OVERHEAD 1%", "the overhead must be more than 0%% and less than 100%%")
		}
		if most := r.env.MostOverhead; most > 0 && share > most {
			return r.hintf(at, fmt.Sprintf("WITHIN OVERHEAD %.4g%%", 100*most), "the overhead must not be more than %.4g%%, your limit", 100*most)
		}
	}
	if share == 0 || lv != top && r.overhead != nil {
		return nil
	}
	if q.Overhead == nil && (!r.ofFunctions(q) || lv != top && !aggregates(q.Selects[0], q)) {
		return nil // the session's setting is about calls of functions
	}
	r.overhead = &plan.Budget{Share: share, Floor: r.env.OverheadFloor}
	return r.checkBudget(q, at)
}

// withinBudget reports whether an acquisition of a plan has a budget.
func withinBudget(root plan.Node) bool {
	return slices.ContainsFunc(plan.Leaves(root), func(leaf *plan.Acquire) bool { return leaf.Budget != nil })
}

// misplacedOverhead refuses WITHIN OVERHEAD in the definition of a stream.
func (r *resolver) misplacedOverhead(q *parser.Query) error {
	if q.Overhead == nil {
		return nil
	}
	return r.errorf(q.Overhead.Pos(), "WITHIN OVERHEAD belongs to the query that uses the stream, not to its definition")
}

// estimatesInJoin refuses estimates as an input of a join.
func (r *resolver) estimatesInJoin(s *parser.Source) error {
	return r.hintf(s.Pos(), r.offBudget(), "a join needs every call of its inputs, and within an overhead most are not seen")
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
	hint := r.offBudget()
	switch {
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
		if from := q.Selects[0].From; q.Overhead != nil && from != nil && from.First.Kind == parser.SourceQuery && len(from.Joins) == 0 {
			hint = "write it in the sub-query, if that aggregates: FROM (SELECT ... WITHIN OVERHEAD " + q.Overhead.String() + ")"
		}
		return r.hintf(at, hint, "an overhead can be given for one stream of functions and its windows, and nothing else")
	case !st.Functions || st.Name == catalog.Allocation || st.Name == catalog.Deallocation:
		return r.hintf(q.Selects[0].From.First.Pos(), hint, "%s cannot be estimated from a part of its tuples", st.Name)
	}
	return nil
}

// sample makes the rows of a statement within an overhead a sample of the calls, where these are its
// result: nothing that is computed of them would say what is missing.
func (r *resolver) sample(s *parser.Select, in *scope, lv level) error {
	hint := "aggregate them: SELECT function_name, COUNT(*) ... GROUP BY function_name"
	switch {
	case lv != top || !r.maySample:
		return r.hintf(s.Pos(), hint, "rows of calls within an overhead are a sample, and can only be the result of a statement")
	case in.windowed:
		if r.ofSequence(s) {
			hint = "aggregate another stream than function_call: SELECT function_name, COUNT(*) ... GROUP BY function_name"
		}
		return r.hintf(s.Pos(), hint, "rows of calls within an overhead are a sample, and have no windows")
	case r.within != nil:
		return r.hintf(r.within.Pos(), hint, "ERROR WITHIN is about aggregates, and rows have no error")
	}
	r.samplesRows = true
	return nil
}

// estimates reports whether the aggregates of the statement are estimated, for those of calls that
// were not seen.
func (r *resolver) estimates() bool { return r.overhead != nil && !r.samplesRows }

// ofSequence reports whether a SELECT is of function_call. Within an overhead that is a sample for
// aggregates, too.
func (r *resolver) ofSequence(s *parser.Select) bool {
	st := budgeted(s.From)
	return st != nil && st.Name == catalog.FunctionCall
}

// checkGaps refuses aggregates of sequences that would join what gaps separate.
func (r *resolver) checkGaps(sel *selected, a *aggCtx) error {
	for i := range a.aggs {
		if f := plan.FindAgg(a.aggs[i].Fn); f == nil || f.Encoder == nil || !f.Encoder.Calls {
			return r.hintf(sel.sel.Pos(), "CALLSTRING, CALLDAG, NLEVEL and INTERVALS know gaps; COUNT and others of function_start or function_duration are estimated",
				"%s has no meaning with calls of the sequence missing", &a.aggs[i])
		}
	}
	return nil
}

// checkEstimated refuses aggregates that cannot be estimated.
func (r *resolver) checkEstimated(sel *selected, a *aggCtx) error {
	for i := range a.aggs {
		f := &a.aggs[i]
		if !estimated[f.Fn] {
			return r.hintf(sel.sel.Pos(), r.offBudget(), "%s cannot be estimated from a part of the calls", f)
		}
		if !plan.ByValue(f) && !plan.KernelAggregates(f) {
			return r.hintf(sel.sel.Pos(), r.offBudget(), "%s cannot be computed in the kernel, which an overhead needs", f)
		}
	}
	return nil
}

// estimated are the aggregates that have estimates, or bounds on one side.
var estimated = map[string]bool{
	"count": true, "rate": true, "sum": true, "avg": true, "min": true, "max": true,
	"stddev": true, "variance": true, "quantile": true, "median": true, "histogram": true,
	"first": true, "last": true, "topk": true,
}

// checkFirstStages refuses a plan whose aggregate the kernel cannot begin: rows do not say in
// which slice they were seen.
func (r *resolver) checkFirstStages(root plan.Node) error {
	if r.samplesRows {
		return nil
	}
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

// checkCeiling refuses a plan that observes calls without a budget, if its user has a limit of the
// overhead.
func (r *resolver) checkCeiling(root plan.Node) error {
	for _, leaf := range plan.Leaves(root) {
		if st := catalog.Find(leaf.Stream); r.env.MostOverhead > 0 && leaf.Budget == nil && st != nil && st.Functions {
			return r.hintf(parser.Span{Start: leaf.Start, Stop: leaf.Stop}, "aggregate the calls: SELECT function_name, COUNT(*) ... GROUP BY function_name",
				"your limit is an overhead of %.4g%%, and this observes each call of %s", 100*r.env.MostOverhead, leaf.Stream)
		}
	}
	return nil
}

// confidence is that of the intervals of estimates, unless the statement gives another.
const confidence = 0.95

// precision resolves ERROR WITHIN ... AT CONFIDENCE ... of a statement whose budget is known.
func (r *resolver) precision(q *parser.Query, lv level) error {
	if r.confidence = confidence; lv != top {
		return nil // it is refused there
	}
	p := q.Precision
	if p == nil {
		return nil
	}
	const example = "ERROR WITHIN 5% AT CONFIDENCE 95% WITHIN OVERHEAD 1%"
	switch st := q.Selects[0]; {
	case r.overhead == nil:
		return r.hintf(p.Pos(), example, "ERROR WITHIN needs WITHIN OVERHEAD: without that clause results are exact")
	case r.shared():
		return r.hintf(p.Pos(), "give FOR, or query the hosts one by one", "when the result of several hosts is known that well is not checked yet")
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
