package optest

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// valueTypes are the types that random columns and expressions have.
var valueTypes = []types.Type{types.Boolean, types.Bigint, types.Ubigint, types.Double, types.Varchar, types.Timestamp, types.Duration}

// Texts that are hard for functions.
var (
	texts    = []string{"", "a", "b", "ab", "read", "READ", "a%b", "x_y", "a,b,,c", "Straße", "日本語", " 12 ", "-3", "1.5", "1.5s", "10ms", "true", "1970-01-01 00:00:01", `back\slash`, "it's"}
	patterns = []string{"", "%", "_", "a%", "%b", "%e%", "_b", "r__d", `a\%b`, `%\`, "%日%", "READ"}
	regexps  = []string{"", "a", "^r", "d$", "(a)(b)?", "[0-9]+", "x.y", "(?i)read"}
	unitsOf  = []string{"microsecond", "millisecond", "second", "minute", "hour", "day"}
)

var (
	integers = []int64{0, 1, -1, 2, 3, 7, 10, 63, 64, 1000, -1000, 1e9, 1 << 53, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}
	floats   = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1.5, 2.5, -2.5, 3, 100, 1e-300, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 9.2e18, 9.3e18}
)

// RandomValue draws a value of type t that may be NULL or extreme.
func RandomValue(t *rapid.T, typ types.Type) types.Value {
	if rapid.IntRange(0, 7).Draw(t, "null") == 0 {
		return types.NullOf(typ)
	}
	v := types.Value{Type: typ}
	switch typ {
	case types.Boolean:
		v.I = int64(rapid.IntRange(0, 1).Draw(t, "bool"))
	case types.Double:
		v.F = rapid.SampledFrom(floats).Draw(t, "double")
	case types.Varchar:
		v.S = rapid.SampledFrom(texts).Draw(t, "text")
	default:
		v.I = rapid.SampledFrom(integers).Draw(t, "int")
	}
	return v
}

// RandomExpr draws an expression of type typ over columns of type in, of at most this
// depth.
func RandomExpr(t *rapid.T, in types.Schema, typ types.Type, depth int) plan.Expr {
	g := exprGen{t, in}
	return g.of(typ, depth)
}

type exprGen struct {
	t  *rapid.T
	in types.Schema
}

func (g exprGen) n(limit int, what string) int { return rapid.IntRange(0, limit-1).Draw(g.t, what) }

func (g exprGen) constant(v types.Value) plan.Expr { return &plan.Const{V: v} }

func (g exprGen) of(typ types.Type, depth int) plan.Expr {
	if depth == 0 {
		return g.leaf(typ)
	}
	switch k := g.n(10, "kind"); {
	case k < 2:
		return g.leaf(typ)
	case k == 2:
		return g.caseOf(typ, depth-1)
	case k == 3:
		if from := g.castable(typ); len(from) > 0 {
			return &plan.Cast{X: g.of(rapid.SampledFrom(from).Draw(g.t, "from"), depth-1), T: typ}
		}
	case k == 4 && typ == types.Boolean:
		of := rapid.SampledFrom(valueTypes).Draw(g.t, "in type")
		in := &plan.In{X: g.of(of, depth-1)}
		for range 1 + g.n(4, "list") {
			in.List = append(in.List, plan.Const{V: RandomValue(g.t, of)})
		}
		return in
	}
	return g.call(typ, depth-1)
}

func (g exprGen) leaf(typ types.Type) plan.Expr {
	var cols []plan.Expr
	for i, f := range g.in.Fields {
		if f.Type == typ {
			cols = append(cols, &plan.Col{Index: i, Name: f.Name, T: typ})
		}
	}
	if len(cols) > 0 && g.n(4, "column") > 0 {
		return rapid.SampledFrom(cols).Draw(g.t, "which")
	}
	return g.constant(RandomValue(g.t, typ))
}

func (g exprGen) caseOf(typ types.Type, depth int) plan.Expr {
	c := &plan.Case{T: typ}
	for range 1 + g.n(2, "arms") {
		c.Whens = append(c.Whens, plan.When{Cond: g.of(types.Boolean, depth), Then: g.of(typ, depth)})
	}
	if g.n(2, "else") == 0 {
		c.Else = g.of(typ, depth)
	}
	return c
}

// castable returns the types that convert to typ.
func (g exprGen) castable(typ types.Type) []types.Type {
	switch typ {
	case types.Varchar:
		return valueTypes
	case types.Boolean:
		return []types.Type{types.Bigint, types.Ubigint, types.Varchar}
	case types.Bigint:
		return []types.Type{types.Boolean, types.Ubigint, types.Double, types.Varchar, types.Timestamp, types.Duration}
	case types.Ubigint:
		return []types.Type{types.Boolean, types.Bigint, types.Double, types.Varchar, types.Timestamp, types.Duration}
	}
	return slices.DeleteFunc([]types.Type{types.Bigint, types.Ubigint, types.Double, types.Varchar, types.Timestamp, types.Duration},
		func(from types.Type) bool { return from == typ })
}

// call draws a function with a result of type typ from the table of all functions.
func (g exprGen) call(typ types.Type, depth int) plan.Expr {
	type choice struct {
		fn  string
		sig plan.Sig
	}
	var all []choice
	for _, s := range plan.Scalars {
		for _, sig := range s.Sigs {
			unheld := slices.Contains(sig.Args, types.Bytes) || slices.Contains(sig.Args, types.Encoding) || slices.Contains(sig.Args, types.List)
			if !s.Volatile && (sig.Result == typ || sig.Result == plan.AnyType) && !unheld { // no column has those
				all = append(all, choice{s.Name, sig})
			}
		}
	}
	c := rapid.SampledFrom(all).Draw(g.t, "function")
	kinds := slices.Clone(c.sig.Args)
	if c.sig.Optional > 0 && g.n(2, "optional") == 0 {
		kinds = kinds[:len(kinds)-c.sig.Optional]
	}
	if c.sig.Variadic {
		for range g.n(3, "more") {
			kinds = append(kinds, kinds[len(kinds)-1])
		}
	}
	call := &plan.Call{Fn: c.fn, T: typ}
	same := typ
	if c.sig.Result != plan.AnyType {
		same = rapid.SampledFrom(valueTypes).Draw(g.t, "any")
	}
	for i, a := range kinds {
		if a == plan.AnyType {
			a = same
		}
		call.Args = append(call.Args, g.argument(c.fn, i, a, depth))
	}
	return call
}

// argument draws an argument; patterns and units are valid ones.
func (g exprGen) argument(fn string, i int, typ types.Type, depth int) plan.Expr {
	from := map[string][]string{"~": regexps, "regexp_extract": regexps, "like": patterns, "ilike": patterns}[fn]
	switch {
	case i == 1 && from != nil, i == 0 && fn == "date_trunc":
		if fn == "date_trunc" {
			from = unitsOf
		}
		return g.constant(types.Str(rapid.SampledFrom(from).Draw(g.t, "pattern")))
	case typ == types.Bigint && i > 0 && (fn == "substr" || fn == "split_part" || fn == "regexp_extract" || fn == "round") && g.n(4, "small") > 0:
		return g.constant(types.Int(int64(g.n(7, "n") - 2)))
	}
	return g.of(typ, depth)
}
