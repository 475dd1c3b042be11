package planner

import (
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

// Other SQL spells quantiles p99(x), approx_quantile(x, q) and percentile_disc(q) WITHIN
// GROUP (ORDER BY x). All are QUANTILE(x, q).

// quantileCall returns a call with another spelling of QUANTILE as one of QUANTILE; another
// call unchanged. WITHIN GROUP with any other function is an error.
func (c *exprCtx) quantileCall(e *parser.Call) (*parser.Call, error) {
	name := strings.ToLower(e.Name.Name)
	switch name {
	case "percentile_cont":
		return nil, c.r.hintf(e.Name.Pos(), discreteOf(e), "PERCENTILE_CONT interpolates between two values, which no aggregate here does")
	case plan.PercentileDisc:
		return c.percentileDisc(e)
	}
	if e.Within != nil {
		return nil, c.r.hintf(e.Within.Pos(), "percentile_disc(0.99) WITHIN GROUP (ORDER BY duration)", "%s takes no WITHIN GROUP", strings.ToUpper(name))
	}
	q, short := plan.QuantileOf(name)
	switch {
	case name != plan.ApproxQuantile && !short:
		return e, nil
	case short && (len(e.Args) != 1 || e.Star || e.Args[0].Name != nil):
		return nil, c.r.hintf(e.Pos(), name+"(duration)", "%s takes one argument", name)
	}
	out := *e
	if short {
		out.Args = []*parser.Arg{e.Args[0], {Span: e.Name.Span, X: &parser.Literal{Span: e.Name.Span, Kind: parser.LitFloat, F: q}}}
	}
	out.Name = &parser.Ident{Span: e.Name.Span, Name: "quantile"}
	return &out, nil
}

// percentileDisc returns percentile_disc(q) WITHIN GROUP (ORDER BY x) as QUANTILE(x, q).
func (c *exprCtx) percentileDisc(e *parser.Call) (*parser.Call, error) {
	switch {
	case e.Within == nil:
		return nil, c.r.hintf(e.Pos(), "percentile_disc(0.99) WITHIN GROUP (ORDER BY duration), or QUANTILE(duration, 0.99)", "PERCENTILE_DISC needs WITHIN GROUP")
	case len(e.Args) != 1 || e.Star || e.Distinct || e.Args[0].Name != nil:
		return nil, c.r.hintf(e.Pos(), "percentile_disc(0.99) WITHIN GROUP (ORDER BY duration)", "PERCENTILE_DISC takes one argument, the quantile")
	case e.Within.Desc:
		return nil, c.r.hintf(e.Within.Pos(), "of ascending values it is the quantile 1 - q: percentile_disc(0.01) is percentile_disc(0.99) DESC", "PERCENTILE_DISC orders by ascending values")
	}
	out := *e
	out.Name = &parser.Ident{Span: e.Name.Span, Name: "quantile"}
	out.Args = []*parser.Arg{{Span: e.Within.Span, X: e.Within.X}, e.Args[0]}
	out.Within = nil
	return &out, nil
}

// discreteOf returns the call with percentile_disc in place of percentile_cont, as a hint.
func discreteOf(e *parser.Call) string {
	out := *e
	out.Name = &parser.Ident{Name: "percentile_disc"}
	if out.Within == nil || out.Within.Desc {
		return "percentile_disc(0.99) WITHIN GROUP (ORDER BY duration) is a value that occurred"
	}
	return out.String() + " is a value that occurred"
}
