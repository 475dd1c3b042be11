package parser

// Children returns the direct sub-expressions of an expression, from left to right.
func Children(e Expr) []Expr {
	var out []Expr
	add := func(es ...Expr) {
		for _, x := range es {
			if x != nil {
				out = append(out, x)
			}
		}
	}
	switch e := e.(type) {
	case *Unary:
		add(e.X)
	case *Binary:
		add(e.X, e.Y)
	case *Between:
		add(e.X, e.Lo, e.Hi)
	case *In:
		add(e.X)
		add(e.List...)
	case *IsNull:
		add(e.X)
	case *Case:
		add(e.X)
		for _, w := range e.Whens {
			add(w.Cond, w.Then)
		}
		add(e.Else)
	case *Cast:
		add(e.X)
	case *Read:
		add(e.X)
	case *Call:
		for _, a := range e.Args {
			add(a.X)
		}
		if e.Within != nil {
			add(e.Within.X)
		}
		add(e.Filter)
	}
	return out
}
