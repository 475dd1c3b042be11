package expr

import (
	"math"
	"math/bits"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// operation is a binary operation on numbers that has a value for every pair, in three
// forms: column ⊗ column, column ⊗ constant, constant ⊗ column. If a form is nil the first
// is used. A kernel computes NULL rows too and reports whether some row may have
// overflowed; fits then identifies the rows.
type operation[T number] struct {
	vv   func(out, x, y []T, r rows) (suspect bool)
	vc   func(out, x []T, c T, r rows) (suspect bool)
	cv   func(out []T, c T, y []T, r rows) (suspect bool)
	fits func(x, y T) bool
}

// arithNode runs an operation. A constant operand that is part of the kernel's form has no
// node.
type arithNode[T number] struct {
	e           plan.Expr
	op          operation[T]
	left, right node
	constant    T
	out         output
}

func newArith[T number](e plan.Expr, left, right node, op operation[T], literal func(types.Value) T) node {
	n := &arithNode[T]{e: e, op: op, left: left, right: right, out: newOutput(e.Type())}
	if v, ok := constant(right); ok && op.vc != nil {
		n.right, n.constant = nil, literal(v)
	} else if v, ok := constant(left); ok && op.cv != nil {
		n.left, n.constant = nil, literal(v)
	}
	return n
}

func intLiteral(v types.Value) int64     { return v.I }
func uintLiteral(v types.Value) uint64   { return uint64(v.I) }
func floatLiteral(v types.Value) float64 { return v.F }

func (n *arithNode[T]) eval(f *frame, r rows) (*batch.Column, error) {
	var left, right *batch.Column
	var x, y []T
	var err error
	if n.left != nil {
		if left, err = n.left.eval(f, r); err != nil {
			return nil, err
		}
		x = vec[T](left)
	}
	if n.right != nil {
		if right, err = n.right.eval(f, r); err != nil {
			return nil, err
		}
		y = vec[T](right)
	}
	n.out.begin(r.n)
	out := vec[T](&n.out.col)
	var suspect bool
	switch {
	case n.right == nil:
		suspect = n.op.vc(out, x, n.constant, r)
	case n.left == nil:
		suspect = n.op.cv(out, n.constant, y, r)
	default:
		suspect = n.op.vv(out, x, y, r)
	}
	n.out.inheritNulls(r, left, right)
	if suspect {
		if err := n.check(x, y, r); err != nil {
			return nil, err
		}
	}
	return n.out.end(), nil
}

// check returns an error if a row that is not NULL overflowed.
func (n *arithNode[T]) check(x, y []T, r rows) error {
	for k := range r.len() {
		i := r.at(k)
		a, b := n.constant, n.constant
		if n.left != nil {
			a = x[i]
		}
		if n.right != nil {
			b = y[i]
		}
		if !n.out.col.Nulls.Get(i) && !n.op.fits(a, b) {
			return rangeError(n.e)
		}
	}
	return nil
}

// The sign of (s^x) & (s^y) is set if x+y has another sign than both; kernels accumulate it
// over the batch instead of branching per row.

var addInt = operation[int64]{
	vv: func(out, x, y []int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			a, b := x[i], y[i]
			s := a + b
			wrong |= (s ^ a) & (s ^ b)
			out[i] = s
		})
		return wrong < 0
	},
	vc: func(out, x []int64, c int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			a := x[i]
			s := a + c
			wrong |= (s ^ a) & (s ^ c)
			out[i] = s
		})
		return wrong < 0
	},
	fits: func(x, y int64) bool { s := x + y; return (s^x)&(s^y) >= 0 },
}

var subInt = operation[int64]{
	vv: func(out, x, y []int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			a, b := x[i], y[i]
			d := a - b
			wrong |= (a ^ b) & (a ^ d)
			out[i] = d
		})
		return wrong < 0
	},
	vc: func(out, x []int64, c int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			a := x[i]
			d := a - c
			wrong |= (a ^ c) & (a ^ d)
			out[i] = d
		})
		return wrong < 0
	},
	cv: func(out []int64, c int64, y []int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			b := y[i]
			d := c - b
			wrong |= (c ^ b) & (c ^ d)
			out[i] = d
		})
		return wrong < 0
	},
	fits: func(x, y int64) bool { d := x - y; return (x^y)&(x^d) >= 0 },
}

var mulInt = operation[int64]{
	vv: func(out, x, y []int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			p, high := mul(x[i], y[i])
			wrong |= high
			out[i] = p
		})
		return wrong != 0
	},
	vc: func(out, x []int64, c int64, r rows) bool {
		var wrong int64
		r.each(func(i int) {
			p, high := mul(x[i], c)
			wrong |= high
			out[i] = p
		})
		return wrong != 0
	},
	fits: func(x, y int64) bool { _, high := mul(x, y); return high == 0 },
}

// mul returns the low 64 bits of x*y; excess is 0 if they are the whole product.
func mul(x, y int64) (product, excess int64) {
	h, l := bits.Mul64(uint64(x), uint64(y))
	high := int64(h) - x>>63&y - y>>63&x // of the signed product
	return int64(l), high ^ int64(l)>>63
}

// Of unsigned numbers the top bit of wrong is the carry out of it, or the borrow.

var addUint = operation[uint64]{
	vv: func(out, x, y []uint64, r rows) bool {
		var wrong uint64
		r.each(func(i int) {
			a, b := x[i], y[i]
			s := a + b
			wrong |= a&b | (a|b)&^s
			out[i] = s
		})
		return wrong>>63 != 0
	},
	fits: func(x, y uint64) bool { return x+y >= x },
}

var subUint = operation[uint64]{
	vv: func(out, x, y []uint64, r rows) bool {
		var wrong uint64
		r.each(func(i int) {
			a, b := x[i], y[i]
			d := a - b
			wrong |= ^a&b | ^(a^b)&d
			out[i] = d
		})
		return wrong>>63 != 0
	},
	fits: func(x, y uint64) bool { return x >= y },
}

var mulUint = operation[uint64]{
	vv: func(out, x, y []uint64, r rows) bool {
		var wrong uint64
		r.each(func(i int) {
			high, low := bits.Mul64(x[i], y[i])
			wrong |= high
			out[i] = low
		})
		return wrong != 0
	},
	fits: func(x, y uint64) bool { high, _ := bits.Mul64(x, y); return high == 0 },
}

var addFloat = operation[float64]{
	vv: func(out, x, y []float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] + y[i] })
		return false
	},
	vc: func(out, x []float64, c float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] + c })
		return false
	},
}

var subFloat = operation[float64]{
	vv: func(out, x, y []float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] - y[i] })
		return false
	},
	vc: func(out, x []float64, c float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] - c })
		return false
	},
	cv: func(out []float64, c float64, y []float64, r rows) bool {
		r.each(func(i int) { out[i] = c - y[i] })
		return false
	},
}

var mulFloat = operation[float64]{
	vv: func(out, x, y []float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] * y[i] })
		return false
	},
	vc: func(out, x []float64, c float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] * c })
		return false
	},
}

// Division by a constant other than 0 and -1 needs no special cases.
var divIntConst = operation[int64]{
	vc: func(out, x []int64, c int64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] / c })
		return false
	},
}

var remIntConst = operation[int64]{
	vc: func(out, x []int64, c int64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] % c })
		return false
	},
}

var divFloatConst = operation[float64]{
	vc: func(out, x []float64, c float64, r rows) bool {
		r.each(func(i int) { out[i] = x[i] / c })
		return false
	},
}

// layouts returns the physical types of a call's two operands.
func layouts(e *plan.Call) [2]types.Physical {
	return [2]types.Physical{e.Args[0].Type().Physical(), e.Args[1].Type().Physical()}
}

var (
	intInt     = [2]types.Physical{types.PhysInt, types.PhysInt}
	intFloat   = [2]types.Physical{types.PhysInt, types.PhysFloat}
	floatInt   = [2]types.Physical{types.PhysFloat, types.PhysInt}
	floatFloat = [2]types.Physical{types.PhysFloat, types.PhysFloat}
)

func add(e *plan.Call, args []node) (node, error) {
	if e.T.Unsigned() {
		return newArith(e, args[0], args[1], addUint, uintLiteral), nil
	}
	return commutative(e, args, addInt, addFloat), nil
}

func multiply(e *plan.Call, args []node) (node, error) {
	switch layouts(e) {
	case intFloat: // DURATION * DOUBLE
		return newPair(e, args, func(x int64, y float64) (int64, outcome) { return roundToInt(float64(x) * y) }), nil
	case floatInt:
		return newPair(e, args, func(x float64, y int64) (int64, outcome) { return roundToInt(x * float64(y)) }), nil
	}
	if e.T.Unsigned() {
		return newArith(e, args[0], args[1], mulUint, uintLiteral), nil
	}
	return commutative(e, args, mulInt, mulFloat), nil
}

// commutative moves a constant operand to the right.
func commutative(e *plan.Call, args []node, ints operation[int64], floats operation[float64]) node {
	left, right := args[0], args[1]
	if _, ok := constant(left); ok {
		left, right = right, left
	}
	switch layouts(e) {
	case intInt:
		return newArith(e, left, right, ints, intLiteral)
	case floatFloat:
		return newArith(e, left, right, floats, floatLiteral)
	}
	return nil
}

func subtract(e *plan.Call, args []node) (node, error) {
	switch layouts(e) {
	case intInt:
		if e.T.Unsigned() {
			return newArith(e, args[0], args[1], subUint, uintLiteral), nil
		}
		return newArith(e, args[0], args[1], subInt, intLiteral), nil
	case floatFloat:
		return newArith(e, args[0], args[1], subFloat, floatLiteral), nil
	}
	return nil, nil
}

func negate(e *plan.Call, args []node) (node, error) {
	switch e.T.Physical() {
	case types.PhysInt:
		return newArith(e, newConst(types.Value{Type: e.T}), args[0], subInt, intLiteral), nil
	case types.PhysFloat:
		return newVector(e.T, args[0], func(out, x []float64, r rows) {
			r.each(func(i int) { out[i] = -x[i] })
		}), nil
	}
	return nil, nil
}

func divide(e *plan.Call, args []node) (node, error) {
	c, isConst := constant(args[1])
	switch layouts(e) {
	case intInt:
		if e.T.Unsigned() {
			return newPair(e, args, func(x, y uint64) (uint64, outcome) {
				if y == 0 {
					return 0, isNothing
				}
				return x / y, valid
			}), nil
		}
		if e.T == types.Double { // DURATION / DURATION
			return newPair(e, args, func(x, y int64) (float64, outcome) { return quotient(float64(x), float64(y)) }), nil
		}
		if isConst && c.I != 0 && c.I != -1 {
			return newArith(e, args[0], args[1], divIntConst, intLiteral), nil
		}
		return newPair(e, args, func(x, y int64) (int64, outcome) {
			switch {
			case y == 0:
				return 0, isNothing
			case x == math.MinInt64 && y == -1:
				return 0, outOfRange
			}
			return x / y, valid
		}), nil
	case floatFloat:
		if isConst && c.F != 0 {
			return newArith(e, args[0], args[1], divFloatConst, floatLiteral), nil
		}
		return newPair(e, args, quotient), nil
	case intFloat: // DURATION / DOUBLE
		return newPair(e, args, func(x int64, y float64) (int64, outcome) {
			if y == 0 {
				return 0, isNothing
			}
			return roundToInt(float64(x) / y)
		}), nil
	}
	return nil, nil
}

func quotient(x, y float64) (float64, outcome) {
	if y == 0 {
		return 0, isNothing
	}
	return x / y, valid
}

func remainder(e *plan.Call, args []node) (node, error) {
	c, isConst := constant(args[1])
	switch layouts(e) {
	case intInt:
		if e.T.Unsigned() {
			return newPair(e, args, func(x, y uint64) (uint64, outcome) {
				if y == 0 {
					return 0, isNothing
				}
				return x % y, valid
			}), nil
		}
		if isConst && c.I != 0 {
			return newArith(e, args[0], args[1], remIntConst, intLiteral), nil
		}
		return newPair(e, args, func(x, y int64) (int64, outcome) {
			if y == 0 {
				return 0, isNothing
			}
			return x % y, valid
		}), nil
	case floatFloat:
		return newPair(e, args, func(x, y float64) (float64, outcome) {
			if y == 0 {
				return 0, isNothing
			}
			return math.Mod(x, y), valid
		}), nil
	}
	return nil, nil
}
