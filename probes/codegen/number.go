package codegen

import (
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// number is an expression of 64-bit integers. If a result overflows, the code
// jumps to unsure; the engine fails there.
type number struct {
	op     string  // "column", "constant", or an operator
	x, y   *number // operands
	index  int     // of a column
	column Column
	c      int64 // of a constant, and the divisor of / and %
	// unsigned: the 64 bits are a UBIGINT.
	unsigned bool
}

// number translates an integer expression; nil if the kernel cannot compute it.
func (c *compiler) number(e plan.Expr) *number {
	if e.Type().Physical() != types.PhysInt {
		return nil
	}
	switch e := e.(type) {
	case *plan.Const:
		if !e.V.IsNull {
			return &number{op: "constant", c: e.V.I, unsigned: e.V.Type.Unsigned()}
		}
	case *plan.Col:
		if col := c.in.Columns[e.Index]; col.Kind == Number {
			return &number{op: "column", index: e.Index, column: col, unsigned: e.T.Unsigned()}
		}
	case *plan.Cast: // between types that differ in name only, or in the sign
		x := c.number(e.X)
		if x != nil && x.unsigned != e.T.Unsigned() {
			return &number{op: "sign", x: x, unsigned: e.T.Unsigned()}
		}
		return x
	case *plan.Call:
		return c.arithmetic(e)
	}
	return nil
}

func (c *compiler) arithmetic(e *plan.Call) *number {
	args := make([]*number, len(e.Args))
	for i, a := range e.Args {
		if args[i] = c.number(a); args[i] == nil {
			return nil
		}
	}
	unsigned := e.T.Unsigned()
	switch e.Fn {
	case "to_ns":
		return args[0]
	case "neg":
		return &number{op: "neg", x: args[0]}
	case "+", "-":
		return &number{op: e.Fn, x: args[0], y: args[1], unsigned: unsigned}
	case "*":
		if !unsigned {
			return &number{op: e.Fn, x: args[0], y: args[1]}
		}
	case "/", "%":
		// Division by zero is NULL, and a signed quotient by -1 can overflow.
		if d := args[1]; d.op == "constant" && d.c != 0 && (d.c != -1 || unsigned) {
			return &number{op: e.Fn, x: args[0], c: d.c, unsigned: unsigned}
		}
	}
	return nil
}

// fails reports whether a result may overflow.
func (n *number) fails() bool {
	switch n.op {
	case "+", "-", "*", "neg", "sign":
		return true
	}
	return n.x != nil && n.x.fails()
}

// reads adds the columns that n reads to t.
func (n *number) reads(t *test) {
	if n.op == "column" {
		t.columns = append(t.columns, n.index)
		t.late = t.late || n.column.Late
		t.nulls |= nullBit(n.column)
	}
	for _, o := range []*number{n.x, n.y} {
		if o != nil {
			o.reads(t)
		}
	}
}

// nullBit returns the bit that reports that a column is NULL; 0: none.
func nullBit(c Column) uint64 {
	if c.Null == 0 {
		return 0
	}
	return 1 << (c.Null - 1)
}

// mayBeNull reports whether a column that n reads may be NULL.
func (n *number) mayBeNull() bool {
	var t test
	n.reads(&t)
	return t.nulls != 0
}

// registers returns the number of operands that n needs at a time.
func (n *number) registers() int {
	switch {
	case n.x == nil:
		return 1
	case n.y == nil:
		return n.x.registers()
	}
	return max(n.x.registers(), 1+n.y.registers())
}

// load writes code that computes n into the first of the registers.
func (n *number) load(w *writer, free []asm.Register, unsure label) {
	dst := free[0]
	if n.x != nil {
		n.x.load(w, free, unsure)
	}
	if n.y != nil {
		n.y.load(w, free[1:], unsure)
	}
	switch n.op {
	case "+", "-", "/", "%":
		if n.unsigned {
			n.loadUnsigned(w, free, unsure)
			return
		}
	}
	switch n.op {
	case "constant":
		w.constant(dst, n.c)
	case "column":
		w.add(asm.LoadMem(dst, argument, n.column.Offset, asm.DWord))
		if n.column.Shift != 0 {
			w.constant(scratch, n.column.Shift)
			w.add(asm.Add.Reg(dst, scratch))
		}
	case "sign": // it is negative, or above the largest BIGINT
		w.jump(asm.JSLT.Imm(dst, 0, ""), unsure)
	case "neg":
		w.compare(asm.JEq, dst, math.MinInt64, unsure)
		w.add(asm.Neg.Imm(dst, 0))
	case "+":
		// It overflowed if the sum's sign differs from those of both operands.
		src := free[1]
		w.add(asm.Mov.Reg(scratch, dst), asm.Add.Reg(scratch, src),
			asm.Xor.Reg(dst, scratch), asm.Xor.Reg(src, scratch), asm.And.Reg(src, dst))
		w.jump(asm.JSLT.Imm(src, 0, ""), unsure)
		w.add(asm.Mov.Reg(dst, scratch))
	case "-":
		// It overflowed if the operands' signs differ, and those of the first
		// and the difference.
		src := free[1]
		w.add(asm.Mov.Reg(scratch, dst), asm.Sub.Reg(scratch, src),
			asm.Xor.Reg(src, dst), asm.Xor.Reg(dst, scratch), asm.And.Reg(src, dst))
		w.jump(asm.JSLT.Imm(src, 0, ""), unsure)
		w.add(asm.Mov.Reg(dst, scratch))
	case "*":
		n.multiply(w, dst, free[1], unsure)
	case "/", "%":
		n.divide(w, dst)
	}
}

// loadUnsigned writes the operation of an unsigned number whose operands are loaded.
func (n *number) loadUnsigned(w *writer, free []asm.Register, unsure label) {
	dst := free[0]
	switch n.op {
	case "+":
		w.add(asm.Add.Reg(dst, free[1]))
		w.jump(asm.JLT.Reg(dst, free[1], ""), unsure)
	case "-":
		w.jump(asm.JLT.Reg(dst, free[1], ""), unsure)
		w.add(asm.Sub.Reg(dst, free[1]))
	case "/":
		w.constant(scratch, n.c)
		w.add(asm.Div.Reg(dst, scratch))
	case "%":
		w.constant(scratch, n.c)
		w.add(asm.Mod.Reg(dst, scratch))
	}
}

// multiply cannot use a 128-bit product. For a constant factor, the valid range
// of the other operand is known; else operands of more than 32 bits are left to
// the engine.
func (n *number) multiply(w *writer, x, y asm.Register, unsure label) {
	within := func(r asm.Register, lo, hi int64) {
		w.compare(asm.JSLT, r, lo, unsure)
		w.compare(asm.JSGT, r, hi, unsure)
	}
	switch {
	case n.y.op == "constant":
		if lo, hi, bounded := factors(n.y.c); bounded {
			within(x, lo, hi)
		}
	case n.x.op == "constant":
		if lo, hi, bounded := factors(n.x.c); bounded {
			within(y, lo, hi)
		}
	default:
		within(x, math.MinInt32, math.MaxInt32)
		within(y, math.MinInt32, math.MaxInt32)
	}
	w.add(asm.Mul.Reg(x, y))
}

// factors returns the range of x for which x*c fits; bounded is false for any
// x.
func factors(c int64) (lo, hi int64, bounded bool) {
	switch {
	case c == 0 || c == 1:
		return 0, 0, false
	case c == -1:
		return -math.MaxInt64, math.MaxInt64, true
	case c > 0:
		return math.MinInt64 / c, math.MaxInt64 / c, true
	}
	return math.MaxInt64 / c, math.MinInt64 / c, true
}

// divide truncates toward zero; the remainder has the dividend's sign. BPF
// divides unsigned numbers (signed ones since Linux 6.6), so magnitudes are
// divided.
func (n *number) divide(w *writer, x asm.Register) {
	positive, done := w.newLabel(), w.newLabel()
	w.add(asm.Mov.Reg(scratch2, x))
	w.jump(asm.JSGE.Imm(x, 0, ""), positive)
	w.add(asm.Neg.Imm(x, 0))
	w.place(positive)
	magnitude := n.c
	if magnitude < 0 {
		magnitude = -magnitude // correct for the least number as well, as an unsigned one
	}
	w.constant(scratch, magnitude)
	keep := asm.JSGE // the sign is already correct if the dividend is not negative
	if n.op == "/" {
		w.add(asm.Div.Reg(x, scratch))
		if n.c < 0 {
			keep = asm.JSLT
		}
	} else {
		w.add(asm.Mod.Reg(x, scratch))
	}
	w.jump(keep.Imm(scratch2, 0, ""), done)
	w.add(asm.Neg.Imm(x, 0))
	w.place(done)
}

// Comparisons: the operator's jump, and its opposite's.
var comparisons = map[string]struct{ jump, opposite asm.JumpOp }{
	"=": {asm.JEq, asm.JNE}, "<>": {asm.JNE, asm.JEq},
	"<": {asm.JSLT, asm.JSGE}, ">=": {asm.JSGE, asm.JSLT},
	">": {asm.JSGT, asm.JSLE}, "<=": {asm.JSLE, asm.JSGT},
}

// unsignedJumps are the jumps for unsigned numbers.
var unsignedJumps = map[asm.JumpOp]asm.JumpOp{
	asm.JEq: asm.JEq, asm.JNE: asm.JNE, asm.JSLT: asm.JLT, asm.JSGE: asm.JGE, asm.JSGT: asm.JGT, asm.JSLE: asm.JLE,
}

var opposites = map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

// compareNumbers tests x op y; nil if the kernel cannot decide it.
func (c *compiler) compareNumbers(op string, left, right plan.Expr) *test {
	x, y := c.number(left), c.number(right)
	if x == nil || y == nil || x.unsigned != y.unsigned {
		return nil
	}
	constant := y.op == "constant"
	if need := max(x.registers(), 1+y.registers()); need > len(operands) {
		return nil
	}
	t := &test{fails: x.fails() || y.fails(), absent: c.in.Absent}
	x.reads(t)
	y.reads(t)
	ops := comparisons[op]
	t.code = func(w *writer, want bool, target, unsure label) {
		jump := ops.jump
		if !want {
			jump = ops.opposite
		}
		if x.unsigned {
			jump = unsignedJumps[jump]
		}
		x.load(w, operands, unsure)
		if constant {
			w.compare(jump, operands[0], y.c, target)
			return
		}
		y.load(w, operands[1:], unsure)
		w.jump(jump.Reg(operands[0], operands[1], ""), target)
	}
	return t
}

// oneOf tests whether a number is one of values; nil if the kernel cannot
// decide it.
func (c *compiler) oneOf(e plan.Expr, values []int64) *test {
	x := c.number(e)
	if x == nil || x.registers() > len(operands) {
		return nil
	}
	return c.among(x, values)
}

// among tests whether a number is one of values.
func (c *compiler) among(x *number, values []int64) *test {
	t := &test{fails: x.fails(), absent: c.in.Absent}
	x.reads(t)
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	t.code = func(w *writer, want bool, target, unsure label) {
		end := w.newLabel()
		found, missed := target, end
		if !want {
			found, missed = end, target
		}
		x.load(w, operands, unsure)
		search(w, values, found, missed)
		w.place(end)
	}
	return t
}

// fewValues is the number of values up to which they are compared one by one.
const fewValues = 4

// search searches the first operand among sorted values, by bisection.
func search(w *writer, values []int64, found, missed label) {
	if len(values) <= fewValues {
		for _, v := range values {
			w.compare(asm.JEq, operands[0], v, found)
		}
		w.goTo(missed)
		return
	}
	upper := w.newLabel()
	half := len(values) / 2
	w.compare(asm.JSGE, operands[0], values[half], upper)
	search(w, values[:half], found, missed)
	w.place(upper)
	search(w, values[half:], found, missed)
}
