package optest

import (
	"errors"
	"math"
	"math/big"

	"endoscope/planner/types"
)

var errRange = errors.New("out of range")

// Whole returns the number that a value of a type of integers is.
func Whole(v types.Value) *big.Int {
	if v.Type == types.Ubigint {
		return new(big.Int).SetUint64(uint64(v.I))
	}
	return big.NewInt(v.I)
}

// Fits returns an integer as type t, if 64 bits hold it.
func Fits(x *big.Int, t types.Type) (types.Value, error) {
	switch {
	case t == types.Ubigint && x.IsUint64():
		return types.Uint(x.Uint64()), nil
	case t == types.Ubigint || !x.IsInt64():
		return types.Value{}, errRange
	}
	return types.Value{Type: t, I: x.Int64()}, nil
}

// rounded returns x as an integer of type t, halves away from zero.
func rounded(x float64, t types.Type) (types.Value, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return types.Value{}, errRange
	}
	i, _ := new(big.Float).SetFloat64(math.Round(x)).Int(nil)
	return Fits(i, t)
}

// arithmetic evaluates + - * / % neg abs with a result of type t, over arguments that are
// not NULL.
func arithmetic(fn string, t types.Type, args []types.Value) (types.Value, error) {
	floats := false
	for _, a := range args {
		floats = floats || a.Type == types.Double
	}
	if floats || t == types.Double {
		r := inFloats(fn, args)
		switch {
		case r.IsNull:
			return types.NullOf(t), nil
		case t == types.Double:
			return r, nil
		}
		return rounded(r.F, t) // DURATION times or by DOUBLE
	}
	x := Whole(args[0])
	r := new(big.Int)
	switch fn {
	case "neg":
		return Fits(r.Neg(x), t)
	case "abs":
		return Fits(r.Abs(x), t)
	}
	y := Whole(args[1])
	switch fn {
	case "+":
		r.Add(x, y)
	case "-":
		r.Sub(x, y)
	case "*":
		r.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return types.NullOf(t), nil
		}
		if fn == "/" {
			r.Quo(x, y) // truncates
		} else {
			r.Rem(x, y) // sign of the dividend
		}
	}
	return Fits(r, t)
}

func inFloats(fn string, args []types.Value) types.Value {
	x := asFloat(args[0])
	switch fn {
	case "neg":
		return types.Float(-x)
	case "abs":
		return types.Float(math.Abs(x))
	}
	y := asFloat(args[1])
	switch fn {
	case "+":
		return types.Float(x + y)
	case "-":
		return types.Float(x - y)
	case "*":
		return types.Float(x * y)
	}
	if y == 0 {
		return types.NullOf(types.Double)
	}
	if fn == "/" {
		return types.Float(x / y)
	}
	return types.Float(math.Mod(x, y))
}

// asFloat returns the number of a value of a numeric type.
func asFloat(v types.Value) float64 {
	if v.Type == types.Double {
		return v.F
	}
	f, _ := new(big.Float).SetInt(Whole(v)).Float64()
	return f
}

// numeric evaluates a function of numbers and durations, if fn is one of them.
func numeric(fn string, args []types.Value) (v types.Value, ok bool, err error) {
	unit := map[string]float64{"to_us": 1e3, "to_ms": 1e6, "to_s": 1e9, "to_min": 60e9}
	if ns := unit[fn]; ns != 0 {
		return types.Float(float64(args[0].I) / ns), true, nil
	}
	if fn == "to_ns" {
		return types.Int(args[0].I), true, nil
	}
	x := args[0].F
	switch fn {
	case "ceil":
		return types.Float(math.Ceil(x)), true, nil
	case "floor":
		return types.Float(math.Floor(x)), true, nil
	case "round":
		if len(args) == 1 {
			return types.Float(math.Round(x)), true, nil
		}
		return types.Float(roundTo(x, args[1].I)), true, nil
	case "sqrt":
		if x < 0 {
			return types.NullOf(types.Double), true, nil
		}
		return types.Float(math.Sqrt(x)), true, nil
	case "log2":
		if x <= 0 {
			return types.NullOf(types.Double), true, nil
		}
		return types.Float(math.Log2(x)), true, nil
	case "ln":
		if x <= 0 {
			return types.NullOf(types.Double), true, nil
		}
		return types.Float(math.Log(x)), true, nil
	case "pow":
		return types.Float(math.Pow(x, args[1].F)), true, nil
	}
	return v, false, nil
}

// roundTo rounds to n decimals by shifting them before the point. A number without decimals
// there, or at all, is unchanged.
func roundTo(x float64, n int64) float64 {
	if n < 0 {
		if n < -308 {
			return 0
		}
		unit := math.Pow10(int(-n))
		return math.Round(x/unit) * unit
	}
	if n > 308 || math.IsInf(x*math.Pow10(int(n)), 0) {
		return x
	}
	return math.Round(x*math.Pow10(int(n))) / math.Pow10(int(n))
}
