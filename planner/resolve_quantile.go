package planner

import (
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

// Other SQL spells quantiles p99(x), approx_quantile(x, q) and percentile_disc(q) WITHIN
// GROUP (ORDER BY x). All are QUANTILE(x, q). percentile_cont(q) WITHIN GROUP (ORDER BY x) is
// an aggregate of the same arguments.

// quantileCall returns a call with another spelling of QUANTILE as one of QUANTILE, and
// percentile_cont as a call with the value and q; another call unchanged. WITHIN GROUP with
// any other function is an error.
func (c *exprCtx) quantileCall(e *parser.Call) (*parser.Call, error) {
	name := strings.ToLower(e.Name.Name)
	switch name {
	case plan.PercentileCont:
		return c.percentile(e, name, plan.PercentileCont)
	case plan.PercentileDisc:
		return c.percentile(e, name, "quantile")
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

// percentile returns name(q) WITHIN GROUP (ORDER BY x) as fn(x, q).
func (c *exprCtx) percentile(e *parser.Call, name, fn string) (*parser.Call, error) {
	upper, example := strings.ToUpper(name), name+"(0.99) WITHIN GROUP (ORDER BY duration)"
	switch {
	case e.Within == nil:
		return nil, c.r.hintf(e.Pos(), example+", or QUANTILE(duration, 0.99)", "%s needs WITHIN GROUP", upper)
	case len(e.Args) != 1 || e.Star || e.Distinct || e.Args[0].Name != nil:
		return nil, c.r.hintf(e.Pos(), example, "%s takes one argument, the quantile", upper)
	case e.Within.Desc:
		return nil, c.r.hintf(e.Within.Pos(), "of ascending values it is the quantile 1 - q: "+name+"(0.01) is "+name+"(0.99) DESC", "%s orders by ascending values", upper)
	}
	out := *e
	out.Name = &parser.Ident{Span: e.Name.Span, Name: fn}
	out.Args = []*parser.Arg{{Span: e.Within.Span, X: e.Within.X}, e.Args[0]}
	out.Within = nil
	return &out, nil
}
