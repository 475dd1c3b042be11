package optest

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// scalars evaluates expressions over one row.
//
// SQL does not define whether an operand is computed when it can no longer affect the
// result, which matters if computing it is an error. Lazy evaluation does only what is
// necessary, and its errors are errors of every engine; eager evaluation does everything
// allowed, and an engine has no errors beyond it. What the language does define holds for
// both: CASE computes only the arm that it takes, and a condition's AND evaluates the right
// side only where the left is true.
type scalars struct{ eager bool }

// holds evaluates a condition that selects rows: NULL counts as false.
func (s scalars) holds(e plan.Expr, row []types.Value) (bool, error) {
	if c, ok := e.(*plan.Call); ok && c.Fn == "and" {
		l, err := s.holds(c.Args[0], row)
		if err != nil && !s.eager {
			if r, rerr := s.holds(c.Args[1], row); rerr == nil && !r {
				return false, nil
			}
		}
		if err != nil || !l {
			return false, err
		}
		return s.holds(c.Args[1], row)
	}
	v, err := s.eval(e, row)
	return err == nil && truth(v) == yes, err
}

func (s scalars) eval(e plan.Expr, row []types.Value) (types.Value, error) {
	switch e := e.(type) {
	case *plan.Col:
		return row[e.Index], nil
	case *plan.Const:
		return e.V, nil
	case *plan.Cast:
		v, err := s.eval(e.X, row)
		if err != nil {
			return v, err
		}
		return cast(v, e.T)
	case *plan.In:
		return s.in(e, row)
	case *plan.Case:
		for _, w := range e.Whens {
			cond, err := s.eval(w.Cond, row)
			if err != nil {
				return cond, err
			}
			if truth(cond) == yes {
				return s.eval(w.Then, row)
			}
		}
		if e.Else == nil {
			return types.NullOf(e.T), nil
		}
		return s.eval(e.Else, row)
	case *plan.Call:
		return s.call(e, row)
	}
	return types.Value{}, fmt.Errorf("no expression: %T", e)
}

func (s scalars) call(e *plan.Call, row []types.Value) (types.Value, error) {
	args, err := s.arguments(e, row)
	if err != nil {
		return types.Value{}, err
	}
	switch e.Fn {
	case "and":
		return verdict(minTruth(args)), nil
	case "or":
		return verdict(maxTruth(args)), nil
	case "is null":
		return types.Bool(args[0].IsNull), nil
	case "coalesce":
		return firstKnown(args, e.T), nil
	case "least":
		return extreme(args, e.T, -1), nil
	case "greatest":
		return extreme(args, e.T, +1), nil
	case "nullif":
		if !args[0].IsNull && len(args) > 1 && !args[1].IsNull && Order(args[0], args[1]) == 0 {
			return types.NullOf(e.T), nil
		}
		return args[0], nil
	case "concat":
		var b strings.Builder
		for _, a := range args {
			if !a.IsNull {
				b.WriteString(a.S)
			}
		}
		return types.Str(b.String()), nil
	}
	for _, a := range args {
		if a.IsNull {
			return types.NullOf(e.T), nil
		}
	}
	switch e.Fn {
	case "not":
		return types.Bool(args[0].I == 0), nil
	case "=", "<>", "<", "<=", ">", ">=":
		return types.Bool(compares(e.Fn, Order(args[0], args[1]))), nil
	case "+", "-", "*", "/", "%", "neg", "abs":
		return arithmetic(e.Fn, e.T, args)
	}
	if v, ok, err := numeric(e.Fn, args); ok {
		return v, err
	}
	return textual(e.Fn, args)
}

// arguments evaluates the arguments that a call needs. Lazily, one argument that decides
// the result excludes the others, with their errors, wherever it stands; the arguments are
// then that one alone.
func (s scalars) arguments(e *plan.Call, row []types.Value) ([]types.Value, error) {
	var args []types.Value
	var failed error
	for _, x := range e.Args {
		v, err := s.eval(x, row)
		switch {
		case err != nil && (s.eager || inOrder[e.Fn]):
			return nil, err
		case err != nil:
			failed = cmp.Or(failed, err)
			continue
		case !s.eager && decides(e.Fn, v):
			if !inOrder[e.Fn] {
				return []types.Value{v}, nil
			}
			return append(args, v), nil
		}
		args = append(args, v)
	}
	return args, failed
}

// inOrder are the functions whose arguments matter only after the earlier ones; the others
// are symmetric, or NULL for any NULL.
var inOrder = map[string]bool{"coalesce": true, "nullif": true}

// decides reports whether v as an argument determines the result.
func decides(fn string, v types.Value) bool {
	switch fn {
	case "and":
		return truth(v) == no
	case "or":
		return truth(v) == yes
	case "coalesce":
		return !v.IsNull
	case "least", "greatest", "concat", "is null":
		return false
	}
	return v.IsNull
}

// The three truth values, ordered so that AND is the minimum and OR the maximum.
const (
	no = iota
	unknown
	yes
)

func truth(v types.Value) int {
	switch {
	case v.IsNull:
		return unknown
	case v.I != 0:
		return yes
	}
	return no
}

func verdict(t int) types.Value {
	if t == unknown {
		return types.NullOf(types.Boolean)
	}
	return types.Bool(t == yes)
}

func minTruth(vs []types.Value) int {
	t := yes
	for _, v := range vs {
		t = min(t, truth(v))
	}
	return t
}

func maxTruth(vs []types.Value) int {
	t := no
	for _, v := range vs {
		t = max(t, truth(v))
	}
	return t
}

func firstKnown(vs []types.Value, t types.Type) types.Value {
	for _, v := range vs {
		if !v.IsNull {
			return v
		}
	}
	return types.NullOf(t)
}

// extreme returns the least (sign -1) or greatest (+1) value that is not NULL.
func extreme(vs []types.Value, t types.Type, sign int) types.Value {
	best := types.NullOf(t)
	for _, v := range vs {
		if !v.IsNull && (best.IsNull || Order(v, best)*sign > 0) {
			best = v
		}
	}
	return best
}

func (s scalars) in(e *plan.In, row []types.Value) (types.Value, error) {
	x, err := s.eval(e.X, row)
	if err != nil {
		return x, err
	}
	if x.IsNull {
		return types.NullOf(types.Boolean), nil
	}
	t := no
	for _, c := range e.List {
		switch {
		case c.V.IsNull:
			t = max(t, unknown)
		case Order(x, c.V) == 0:
			t = yes
		}
	}
	return verdict(t), nil
}

func compares(op string, c int) bool {
	switch op {
	case "=":
		return c == 0
	case "<>":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// Order compares two values of one type, or a UBIGINT and a BIGINT, that are not NULL. NaN equals itself
// and is above every number; texts compare byte by byte.
func Order(a, b types.Value) int {
	switch a.Type.Physical() {
	case types.PhysFloat:
		switch an, bn := math.IsNaN(a.F), math.IsNaN(b.F); {
		case an && bn:
			return 0
		case an:
			return 1
		case bn:
			return -1
		}
		return cmp.Compare(a.F, b.F)
	case types.PhysCode:
		return strings.Compare(a.S, b.S)
	case types.PhysAny:
		return strings.Compare(printed(a), printed(b))
	}
	return Whole(a).Cmp(Whole(b))
}
