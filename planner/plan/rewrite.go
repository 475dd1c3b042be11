package plan

import (
	"strings"

	"endoscope/planner/types"
)

// LikePrefix returns the text with which all texts begin that a LIKE pattern allows.
func LikePrefix(pattern string) string {
	if i := strings.IndexAny(pattern, `%_\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Conjuncts splits a condition at its ANDs.
func Conjuncts(e Expr) []Expr {
	if c, ok := e.(*Call); ok && c.Fn == "and" {
		return append(Conjuncts(c.Args[0]), Conjuncts(c.Args[1])...)
	}
	return []Expr{e}
}

// And joins conditions, of which nil ones are left out; nil for none.
func And(es ...Expr) Expr {
	var out Expr
	for _, e := range es {
		switch {
		case e == nil:
		case out == nil:
			out = e
		default:
			out = &Call{Fn: "and", Args: []Expr{out, e}, T: types.Boolean}
		}
	}
	return out
}

// Substitute replaces each column by the expression that computes it.
func Substitute(e Expr, by []Expr) Expr {
	return Transform(e, func(x Expr) Expr {
		if c, ok := x.(*Col); ok {
			return by[c.Index]
		}
		return x
	})
}

// Shift adds n to the indexes of the columns of e.
func Shift(e Expr, n int) Expr {
	return Transform(e, func(x Expr) Expr {
		if c, ok := x.(*Col); ok {
			return &Col{Index: c.Index + n, Name: c.Name, T: c.T}
		}
		return x
	})
}

// Volatile reports whether e may have different values for equal rows.
func Volatile(e Expr) bool {
	found := false
	Walk(e, func(x Expr) {
		if c, ok := x.(*Call); ok {
			if f := FindScalar(c.Fn); f != nil && f.Volatile {
				found = true
			}
		}
	})
	return found
}
