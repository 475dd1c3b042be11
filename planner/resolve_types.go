package planner

import (
	"slices"
	"strings"

	"endoscope/parser"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// castPrice returns the cost of an implicit conversion: 0 for equal types, 1 for a
// conversion that loses nothing relevant, -1 if it is not allowed.
func castPrice(x plan.Expr, to types.Type) int {
	from := x.Type()
	switch {
	case from == to:
		return 0
	case from == types.Null:
		return 0
	case from == types.Bigint && to == types.Ubigint:
		if k, ok := x.(*plan.Const); ok && k.V.I >= 0 {
			return 0 // a bare number has the type of what it stands beside
		}
	case from == types.Bigint && to == types.Double:
		return 1
	case from == types.Bigint && to == types.Duration, from == types.Ubigint && to == types.Bigint:
		return 2 // a bare number beside a duration is in ns
	case from == types.Ubigint && to == types.Duration:
		return 3
	case from == types.Ubigint && to == types.Double:
		return 4
	case from == types.Varchar && (to == types.Timestamp || to == types.Duration):
		if k, ok := x.(*plan.Const); ok {
			if _, ok := textConst(k, to); ok {
				return 2
			}
		}
	}
	return -1
}

// coerce converts x to t if castPrice allows it; constants at once.
func coerce(x plan.Expr, t types.Type) plan.Expr {
	if x.Type() == t {
		return x
	}
	k, ok := x.(*plan.Const)
	if !ok {
		return &plan.Cast{X: x, T: t}
	}
	n := *k
	switch {
	case k.V.IsNull:
		n.V = types.NullOf(t)
		k.Param.As(t)
	case t == types.Double && k.V.Type.Physical() == types.PhysInt:
		n.V = types.Float(k.V.Type.Float(k.V.I))
	case t.Physical() == types.PhysInt && k.V.Type.Physical() == types.PhysInt && (k.V.I >= 0 || t.Unsigned() == k.V.Type.Unsigned()):
		n.V.Type = t
	case k.V.Type == types.Varchar:
		v, ok := textConst(k, t)
		if !ok {
			return &plan.Cast{X: x, T: t}
		}
		n.V = v
	default:
		return &plan.Cast{X: x, T: t}
	}
	return &n
}

// textConst parses a text literal as a timestamp or duration.
func textConst(k *plan.Const, t types.Type) (types.Value, bool) {
	switch t {
	case types.Timestamp:
		if ns, ok := parseTime(k.V.S); ok {
			return types.Time(ns), true
		}
	case types.Duration:
		if ns, ok := parseDuration(k.V.S); ok {
			return types.Dur(ns), true
		}
	}
	return types.Value{}, false
}

// parseDuration parses '1.5s', '100ms', '2min', '1d' as the literals do.
func parseDuration(s string) (int64, bool) {
	stmt, err := parser.Parse("SET k = " + s)
	if err != nil {
		return 0, false
	}
	set, ok := stmt.(*parser.Set)
	if !ok || set.Value.Kind != parser.LitDuration {
		return 0, false
	}
	return set.Value.Int, true
}

// common returns the type to which all of xs can be converted.
func common(xs []plan.Expr) (types.Type, bool) {
	t := types.Null
	for _, x := range xs {
		switch {
		case x.Type() == t:
		case t == types.Null, castPrice(x, t) > 0 && allFree(xs, x.Type()):
			t = x.Type()
		case castPrice(x, t) >= 0:
		default:
			up := x.Type()
			for _, y := range xs {
				if castPrice(y, up) < 0 {
					return types.Invalid, false
				}
			}
			t = up
		}
	}
	return t, true
}

// allFree reports whether a conversion of each of xs to t costs nothing.
func allFree(xs []plan.Expr, t types.Type) bool {
	return !slices.ContainsFunc(xs, func(x plan.Expr) bool { return castPrice(x, t) != 0 })
}

// checkSign refuses a comparison of a UBIGINT with a negative constant.
func (c *exprCtx) checkSign(pos parser.Span, x, y plan.Expr) error {
	k, ok := y.(*plan.Const)
	if !ok {
		x, y = y, x
		k, ok = y.(*plan.Const)
	}
	if !ok || x.Type() != types.Ubigint || k.V.Type != types.Bigint || k.V.IsNull || k.V.I >= 0 {
		return nil
	}
	return c.r.hintf(pos, "the 64 bits of "+k.String()+" are the UBIGINT "+plan.FormatValue(types.Uint(uint64(k.V.I))),
		"%s is UBIGINT, which is never negative", x)
}

// apply types a function or operator over resolved arguments by the table.
func (c *exprCtx) apply(fn string, pos parser.Span, args ...plan.Expr) (plan.Expr, error) {
	f := plan.FindScalar(fn)
	best, bestPrice := -1, 0
	var bestTypes []types.Type
	for i := range f.Sigs {
		kinds, price, ok := fit(&f.Sigs[i], args)
		if ok && (best < 0 || price < bestPrice) {
			best, bestPrice, bestTypes = i, price, kinds
		}
	}
	if best < 0 {
		return nil, c.mistyped(f, pos, args)
	}
	if mixed := len(bestTypes) == 2 && bestTypes[0] != bestTypes[1] && f.Sigs[best].Result == types.Boolean; mixed {
		if err := c.checkSign(pos, args[0], args[1]); err != nil {
			return nil, err
		}
	}
	out := &plan.Call{Fn: fn, T: f.Sigs[best].Result}
	for i, a := range args {
		out.Args = append(out.Args, coerce(a, bestTypes[i]))
	}
	if out.T == plan.AnyType {
		out.T = bestTypes[0]
	}
	return out, nil
}

// fit matches arguments with a signature and returns the types to which they are converted
// and the cost of that.
func fit(s *plan.Sig, args []plan.Expr) (kinds []types.Type, price int, ok bool) {
	if len(args) > len(s.Args) && !s.Variadic || len(args) < len(s.Args)-s.Optional {
		return nil, 0, false
	}
	want := func(i int) types.Type {
		if i >= len(s.Args) {
			return s.Args[len(s.Args)-1]
		}
		return s.Args[i]
	}
	var generic []plan.Expr
	for i, a := range args {
		if want(i) == plan.AnyType {
			generic = append(generic, a)
		}
	}
	shared := types.Invalid
	if len(generic) > 0 {
		if shared, ok = common(generic); !ok {
			return nil, 0, false
		}
		if shared == types.Null {
			shared = types.Varchar
		}
	}
	for i, a := range args {
		t := want(i)
		if t == plan.AnyType {
			t = shared
		}
		p := castPrice(a, t)
		if p < 0 {
			return nil, 0, false
		}
		price += p
		kinds = append(kinds, t)
	}
	return kinds, price, true
}

// mistyped returns the error of a call whose arguments match no signature.
func (c *exprCtx) mistyped(f *plan.Scalar, pos parser.Span, args []plan.Expr) error {
	kinds := make([]string, len(args))
	for i, a := range args {
		kinds[i] = a.Type().String()
	}
	hint := ""
	for _, a := range args {
		if k, ok := a.(*plan.Const); ok && k.V.Type == types.Varchar {
			hint = "'" + k.V.S + "' is a text"
		}
	}
	for i, a := range args {
		if c, ok := a.(*plan.Col); ok && len(args) == 2 && c.T == types.Varchar && args[1-i].Type() == types.Bigint && isValue(c.Name) {
			hint = c.Name + " is text: compare an enum with the name of a value, in quotes"
		}
	}
	isName := f.Name[0] >= 'a' && f.Name[0] <= 'z' && f.Name != "and" && f.Name != "or" && f.Name != "not" &&
		f.Name != "neg" && f.Name != "like" && f.Name != "ilike" && f.Name != "is null"
	if isName {
		return c.r.hintf(pos, "it is used as "+Signature(f), "%s does not take (%s)", f.Name, strings.Join(kinds, ", "))
	}
	name := map[string]string{"neg": "-"}[f.Name]
	if name == "" {
		name = strings.ToUpper(f.Name)
	}
	if len(kinds) == 2 {
		if kinds[0] == "DURATION" && kinds[1] == "DOUBLE" || kinds[0] == "DOUBLE" && kinds[1] == "DURATION" {
			hint = "write the duration with its unit, such as 1.5ms, or convert: to_ms(duration)"
		}
		return c.r.hintf(pos, hint, "%s is not defined between %s and %s", name, kinds[0], kinds[1])
	}
	return c.r.hintf(pos, hint, "%s is not defined for %s", name, strings.Join(kinds, ", "))
}

// Signature returns the call syntax of a function, for DESCRIBE FUNCTION and hints.
func Signature(f *plan.Scalar) string {
	var ways []string
	name, field, isField := strings.Cut(f.Name, ".") // frame(stack, 2).line
	if isField {
		field = "." + field
	}
	for i := range f.Sigs {
		s := &f.Sigs[i]
		var args []string
		for j, a := range s.Args {
			arg := a.String()
			if a == plan.AnyType {
				arg = "any"
			}
			if j >= len(s.Args)-s.Optional {
				arg = "[" + arg + "]"
			}
			args = append(args, arg)
		}
		if s.Variadic {
			args = append(args, "...")
		}
		result := s.Result.String()
		if s.Result == plan.AnyType {
			result = "any"
		}
		ways = append(ways, name+"("+strings.Join(args, ", ")+")"+field+" → "+result)
	}
	return strings.Join(ways, " or ")
}

// AggSignature returns the call syntax of an aggregate.
func AggSignature(f *plan.AggFunc) string {
	if f.Encoder != nil {
		return encoderSignature(f)
	}
	var args []string
	if f.Star {
		args = append(args, "*")
	}
	if f.Args != nil {
		var kinds []string
		for _, t := range f.Args {
			if t == plan.AnyType {
				kinds = append(kinds, "any")
			} else {
				kinds = append(kinds, t.String())
			}
		}
		args = append(args, strings.Join(kinds, "|"))
	}
	text := f.Name + "(" + strings.Join(args, " or ")
	for i, p := range f.Params {
		if i >= len(f.Params)-f.Optional {
			text += ", [" + p.String() + "]"
		} else {
			text += ", " + p.String()
		}
	}
	return text + ")"
}

// encoderSignature returns the call syntax of an encoder.
func encoderSignature(f *plan.AggFunc) string {
	text := f.Name + "("
	if f.Encoder.Calls {
		text += "event, function"
	} else {
		text += "token | event, function"
	}
	if f.Encoder.Model {
		text += ", model"
	}
	for _, o := range f.Encoder.Options {
		words := slices.Clone(o.Words)
		if o.Type == types.Bigint {
			words = append(words, o.Type.String())
		}
		option := ", " + o.Name + " => " + strings.Join(words, "|")
		if !o.Required {
			option = " [" + option[2:] + "]"
		}
		text += option
	}
	if !f.Encoder.Calls && !f.Encoder.Untimed {
		text += " [" + plan.TimeArgument + " => DURATION]"
	}
	return text + " [" + plan.SequenceArgument + " => any] [" + plan.BornArgument + " => BOOLEAN] [" + plan.DiesArgument + " => BOOLEAN]) → " + f.Result(types.Varchar).String()
}
