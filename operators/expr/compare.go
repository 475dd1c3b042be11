package expr

import (
	"cmp"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// relation is a relation that kernels implement; the six operators are built from these by
// exchanging operands and negating results. As in PostgreSQL, NaN equals itself and is
// above every other DOUBLE, so exactly one of <, = and > holds for any two values and
// negation is safe.
type relation uint8

const (
	less relation = iota
	lessEqual
	equal
)

// comparisonOp describes how an operator is built from a relation.
type comparisonOp struct {
	rel    relation
	negate bool
}

// constRight is the operator's form for x op constant.
var constRight = map[string]comparisonOp{
	"=": {equal, false}, "<>": {equal, true},
	"<": {less, false}, ">=": {less, true},
	"<=": {lessEqual, false}, ">": {lessEqual, true},
}

// mirrored is the operator to use when the operands are exchanged.
var mirrored = map[string]string{"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

// compareKernel appends to dst the rows whose values satisfy the comparison (negated if
// negate is set). It ignores the NULL bitmaps.
type compareKernel func(l, r *batch.Column, negate bool, rs rows, dst []uint16) []uint16

// compareNode compares two arguments; right is nil if the kernel contains the constant.
type compareNode struct {
	left, right node
	kernel      compareKernel
	negate      bool
	out         output
	chosen      []uint16
}

// compare builds a comparison.
func compare(e *plan.Call, args []node) (node, error) {
	l, r := args[0], args[1]
	lt, rt := e.Args[0].Type(), e.Args[1].Type()
	op := e.Fn
	if _, ok := constant(l); ok {
		l, r, op = r, l, mirrored[op]
		lt, rt = rt, lt
	}
	switch {
	case lt == types.Ubigint && rt == types.Bigint:
		return compareRows(op, l, r, func(l, r *batch.Column, i int) int { return compareMixed(l.Int[i], r.Int[i]) }), nil
	case lt == types.Bigint && rt == types.Ubigint:
		return compareRows(op, l, r, func(l, r *batch.Column, i int) int { return -compareMixed(r.Int[i], l.Int[i]) }), nil
	case lt != rt:
		return nil, nil
	case lt.Unsigned():
		return newCompare(op, l, r, uintLiteral), nil
	}
	switch lt.Physical() {
	case types.PhysInt:
		return newCompare(op, l, r, intLiteral), nil
	case types.PhysFloat:
		return newCompare(op, l, r, floatLiteral), nil
	}
	order := orderOf(lt)
	if order == nil {
		return nil, nil
	}
	return compareRows(op, l, r, order), nil
}

// compareMixed compares the bits of a UBIGINT with a BIGINT, by value.
func compareMixed(bits, i int64) int {
	if i < 0 {
		return 1
	}
	return cmp.Compare(uint64(bits), uint64(i))
}

// orderFunc compares row i of two columns of one type: negative, 0, positive.
type orderFunc func(l, r *batch.Column, i int) int

// orderOf returns the order of a type's values, nil if it has none.
func orderOf(t types.Type) orderFunc {
	switch t.Physical() {
	case types.PhysInt:
		if t.Unsigned() {
			return func(l, r *batch.Column, i int) int { return cmp.Compare(uint64(l.Int[i]), uint64(r.Int[i])) }
		}
		return func(l, r *batch.Column, i int) int { return cmp.Compare(l.Int[i], r.Int[i]) }
	case types.PhysFloat:
		return func(l, r *batch.Column, i int) int {
			return boolInt(isLess(r.Float[i], l.Float[i])) - boolInt(isLess(l.Float[i], r.Float[i]))
		}
	case types.PhysCode:
		return func(l, r *batch.Column, i int) int { return strings.Compare(text(l, i), text(r, i)) }
	case types.PhysBool:
		return func(l, r *batch.Column, i int) int { return boolInt(l.Bool[i]) - boolInt(r.Bool[i]) }
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

type number interface{ int64 | uint64 | float64 }

func newCompare[T number](op string, l, r node, literal func(types.Value) T) node {
	n := &compareNode{left: l, right: r, out: newOutput(types.Boolean)}
	if v, ok := constant(r); ok {
		if c := literal(v); c == c { // NaN uses the general form
			o := constRight[op]
			n.right, n.negate = nil, o.negate
			n.kernel = func(l, _ *batch.Column, negate bool, rs rows, dst []uint16) []uint16 {
				return chooseConst(o.rel, vec[T](l), c, negate, rs, dst)
			}
			return n
		}
	}
	swap := op == ">" || op == "<="
	n.negate = op == "<>" || op == "<=" || op == ">="
	if op == "=" || op == "<>" {
		n.kernel = func(l, r *batch.Column, negate bool, rs rows, dst []uint16) []uint16 {
			return chooseEqual(vec[T](l), vec[T](r), negate, rs, dst)
		}
		return n
	}
	if swap {
		n.left, n.right = r, l
	}
	n.kernel = func(l, r *batch.Column, negate bool, rs rows, dst []uint16) []uint16 {
		return chooseLess(vec[T](l), vec[T](r), negate, rs, dst)
	}
	return n
}

// chooseConst chooses by column ⊗ constant. c is not NaN, so the machine's comparisons are
// correct.
func chooseConst[T number](rel relation, x []T, c T, negate bool, r rows, dst []uint16) []uint16 {
	switch rel {
	case less:
		return chooseLessConst(x, c, negate, r, dst)
	case lessEqual:
		return chooseLessEqualConst(x, c, negate, r, dst)
	}
	return chooseEqualConst(x, c, negate, r, dst)
}

// The loops below store every row and advance past the rows that hold, which avoids
// mispredicted branches.

func chooseLessConst[T number](x []T, c T, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if (v < c) != negate {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if (x[i] < c) != negate {
			k++
		}
	}
	return dst[:k]
}

func chooseLessEqualConst[T number](x []T, c T, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if (v <= c) != negate {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if (x[i] <= c) != negate {
			k++
		}
	}
	return dst[:k]
}

func chooseEqualConst[T number](x []T, c T, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if (v == c) != negate {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if (x[i] == c) != negate {
			k++
		}
	}
	return dst[:k]
}

func chooseLess[T number](x, y []T, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		y := y[:r.n]
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if isLess(v, y[i]) != negate {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if isLess(x[i], y[i]) != negate {
			k++
		}
	}
	return dst[:k]
}

func chooseEqual[T number](x, y []T, negate bool, r rows, dst []uint16) []uint16 {
	k := len(dst)
	dst = room(dst, r.len())
	if r.sel == nil {
		y := y[:r.n]
		for i, v := range x[:r.n] {
			dst[k] = uint16(i)
			if isEqual(v, y[i]) != negate {
				k++
			}
		}
		return dst[:k]
	}
	for _, i := range r.sel {
		dst[k] = i
		if isEqual(x[i], y[i]) != negate {
			k++
		}
	}
	return dst[:k]
}

// isLess and isEqual order numbers with NaN above all; for integers the compiler keeps only
// the first comparison.
func isLess[T number](a, b T) bool  { return a < b || (b != b && a == a) }
func isEqual[T number](a, b T) bool { return a == b || (a != a && b != b) }

// compareRows compares row by row: BOOLEAN, and text that is not in a dictionary table.
func compareRows(op string, l, r node, order orderFunc) node {
	o := constRight[op]
	holds := map[relation]func(c int) bool{
		less:      func(c int) bool { return c < 0 },
		lessEqual: func(c int) bool { return c <= 0 },
		equal:     func(c int) bool { return c == 0 },
	}[o.rel]
	return &compareNode{left: l, right: r, negate: o.negate, out: newOutput(types.Boolean),
		kernel: func(l, r *batch.Column, negate bool, rs rows, dst []uint16) []uint16 {
			for k := range rs.len() {
				if i := rs.at(k); holds(order(l, r, i)) != negate {
					dst = append(dst, uint16(i))
				}
			}
			return dst
		}}
}

// operands evaluates the arguments.
func (n *compareNode) operands(f *frame, r rows) (left, right *batch.Column, err error) {
	if left, err = n.left.eval(f, r); err != nil || n.right == nil {
		return left, nil, err
	}
	right, err = n.right.eval(f, r)
	return left, right, err
}

func (n *compareNode) choose(f *frame, r rows, want bool, dst []uint16) ([]uint16, error) {
	left, right, err := n.operands(f, r)
	if err != nil {
		return nil, err
	}
	from := len(dst)
	dst = n.kernel(left, right, n.negate == want, r, dst)
	dst = dropNulls(dst, from, left.Nulls)
	if right != nil {
		dst = dropNulls(dst, from, right.Nulls)
	}
	return dst, nil
}

func (n *compareNode) eval(f *frame, r rows) (*batch.Column, error) {
	left, right, err := n.operands(f, r)
	if err != nil {
		return nil, err
	}
	n.chosen = n.kernel(left, right, n.negate, r, n.chosen[:0])
	return n.out.scatter(r, n.chosen, left, right), nil
}
