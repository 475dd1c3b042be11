package distribute

import (
	"fmt"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
)

func refusal(pos parser.Span, src, hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: pos, Src: src}
}

func (d *divider) refuse(at plan.Node, hint, format string, args ...any) error {
	p := d.Places[at]
	return refusal(p.Pos, p.Src, hint, format, args...)
}

// find returns the place of the first expression in the SELECT of a node for which
// holds is true; if there is none, that of the node.
func (d *divider) find(at plan.Node, holds func(parser.Expr) bool) Place {
	p := d.Places[at]
	if p.Sel == nil {
		return p
	}
	var all []parser.Expr
	if p.Sel.Where != nil {
		all = append(all, p.Sel.Where)
	}
	for _, i := range p.Sel.Items {
		if i.X != nil {
			all = append(all, i.X)
		}
	}
	all = append(all, p.Sel.GroupBy...)
	if p.Sel.Having != nil {
		all = append(all, p.Sel.Having)
	}
	for _, e := range all {
		if x := FindExpr(e, holds); x != nil {
			p.Pos = x.Pos()
			return p
		}
	}
	return p
}

// FindExpr returns the first part of an expression for which holds is true, or
// nil.
func FindExpr(e parser.Expr, holds func(parser.Expr) bool) parser.Expr {
	if holds(e) {
		return e
	}
	for _, x := range parser.Children(e) {
		if found := FindExpr(x, holds); found != nil {
			return found
		}
	}
	return nil
}

func callOf(e parser.Expr, fn string) bool {
	c, ok := e.(*parser.Call)
	return ok && strings.EqualFold(c.Name.Name, fn)
}

// isBorder reports whether an expression is the border of a window.
func isBorder(e parser.Expr) bool {
	c, ok := e.(*parser.ColumnRef)
	if !ok {
		return false
	}
	switch strings.ToLower(c.Parts[len(c.Parts)-1].Name) {
	case "window_start", "window_end":
		return true
	}
	return false
}

// innerBorder returns the place where an aggregate's SELECT names the border of a
// window inside what hosts compute: not as a column of the result, or of HAVING.
func (d *divider) innerBorder(a *plan.Aggregate) Place {
	p := d.Places[a]
	if p.Sel == nil {
		return p
	}
	var within []parser.Expr
	if p.Sel.Where != nil {
		within = append(within, p.Sel.Where)
	}
	for _, k := range p.Sel.GroupBy {
		if !isBorder(k) {
			within = append(within, k)
		}
	}
	aggregate := func(e parser.Expr) bool {
		c, ok := e.(*parser.Call)
		return ok && plan.FindAgg(strings.ToLower(c.Name.Name)) != nil
	}
	for _, i := range p.Sel.Items {
		if i.X != nil {
			if c := FindExpr(i.X, aggregate); c != nil {
				within = append(within, c)
			}
		}
	}
	if p.Sel.Having != nil {
		if c := FindExpr(p.Sel.Having, aggregate); c != nil {
			within = append(within, c)
		}
	}
	for _, e := range within {
		if x := FindExpr(e, isBorder); x != nil {
			p.Pos = x.Pos()
			return p
		}
	}
	return p
}
