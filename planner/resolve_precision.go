package planner

import (
	"endoscope/parser"
	"endoscope/planner/plan"
)

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
