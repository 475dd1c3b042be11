package symbols

// Memory is what expressions of unwind rules read.
type Memory interface {
	// Word reads the 8 bytes at addr.
	Word(addr uint64) (uint64, bool)
}

// Limits on expressions, which may loop. Those of compilers and of glibc have a
// dozen steps.
const (
	expressionSteps = 1000
	expressionStack = 64
)

// Evaluate computes a DWARF expression of a rule (DWARF 5, 2.5.1; what 6.4.2
// forbids is refused). initial, if any, is the CFA, on the stack from the start.
func Evaluate(expr []byte, regs *[UnwindWords]uint64, memory Memory, initial ...uint64) (uint64, bool) {
	e := expression{code: expr, regs: regs, memory: memory}
	for _, v := range initial {
		e.push(v)
	}
	r := &e.reader
	r.b = expr
	for range expressionSteps {
		if r.bad || e.bad {
			return 0, false
		}
		if len(r.b) == 0 {
			v := e.pop()
			return v, !e.bad
		}
		e.step(r.byte())
	}
	return 0, false
}

type expression struct {
	code   []byte
	reader frameReader
	regs   *[UnwindWords]uint64
	memory Memory
	stack  [expressionStack]uint64
	n      int
	bad    bool
}

func (e *expression) push(v uint64) {
	if e.n == len(e.stack) {
		e.bad = true
		return
	}
	e.stack[e.n] = v
	e.n++
}

func (e *expression) pop() uint64 {
	if e.n == 0 {
		e.bad = true
		return 0
	}
	e.n--
	return e.stack[e.n]
}

// pick pushes a copy of the i-th entry from the top.
func (e *expression) pick(i int) {
	if i >= e.n {
		e.bad = true
		return
	}
	e.push(e.stack[e.n-1-i])
}

// jump goes on n bytes from here.
func (e *expression) jump(n int64) {
	to := int64(len(e.code)-len(e.reader.b)) + n
	if to < 0 || to > int64(len(e.code)) {
		e.bad = true
		return
	}
	e.reader.b = e.code[to:]
}

func (e *expression) step(op byte) {
	r := &e.reader
	switch {
	case op >= 0x30 && op <= 0x4f: // DW_OP_lit0 and on
		e.push(uint64(op - 0x30))
		return
	case op >= 0x70 && op <= 0x8f: // DW_OP_breg0 and on
		offset := uint64(r.sleb())
		if op-0x70 >= UnwindWords {
			e.bad = true
			return
		}
		e.push(e.regs[op-0x70] + offset)
		return
	}
	switch op {
	case 0x03, 0x0e, 0x0f: // addr, const8u, const8s
		e.push(r.uint(8))
	case 0x06: // deref
		v, ok := e.memory.Word(e.pop())
		e.bad = e.bad || !ok
		e.push(v)
	case 0x08: // const1u
		e.push(uint64(r.byte()))
	case 0x09:
		e.push(uint64(int8(r.byte())))
	case 0x0a: // const2u
		e.push(r.uint(2))
	case 0x0b:
		e.push(uint64(int16(r.uint(2))))
	case 0x0c: // const4u
		e.push(r.uint(4))
	case 0x0d:
		e.push(uint64(int32(r.uint(4))))
	case 0x10: // constu
		e.push(r.uleb())
	case 0x11: // consts
		e.push(uint64(r.sleb()))
	case 0x12: // dup
		e.pick(0)
	case 0x13: // drop
		e.pop()
	case 0x14: // over
		e.pick(1)
	case 0x15: // pick
		e.pick(int(r.byte()))
	case 0x16: // swap
		a, b := e.pop(), e.pop()
		e.push(a)
		e.push(b)
	case 0x28: // bra
		if n := int64(int16(r.uint(2))); e.pop() != 0 {
			e.jump(n)
		}
	case 0x2f: // skip
		e.jump(int64(int16(r.uint(2))))
	case 0x1f: // neg
		e.push(-e.pop())
	case 0x20: // not
		e.push(^e.pop())
	case 0x23: // plus_uconst
		e.push(e.pop() + r.uleb())
	case 0x96: // nop
	default:
		e.binary(op)
	}
}

// binary executes an operation on the two top entries.
func (e *expression) binary(op byte) {
	b, a := e.pop(), e.pop()
	truth := func(is bool) uint64 {
		if is {
			return 1
		}
		return 0
	}
	switch op {
	case 0x1a:
		e.push(a & b)
	case 0x1c:
		e.push(a - b)
	case 0x1e:
		e.push(a * b)
	case 0x21:
		e.push(a | b)
	case 0x22:
		e.push(a + b)
	case 0x24:
		e.push(a << b)
	case 0x25:
		e.push(a >> b)
	case 0x26:
		e.push(uint64(int64(a) >> b))
	case 0x27:
		e.push(a ^ b)
	case 0x29:
		e.push(truth(a == b))
	case 0x2a:
		e.push(truth(int64(a) >= int64(b)))
	case 0x2b:
		e.push(truth(int64(a) > int64(b)))
	case 0x2c:
		e.push(truth(int64(a) <= int64(b)))
	case 0x2d:
		e.push(truth(int64(a) < int64(b)))
	case 0x2e:
		e.push(truth(a != b))
	default:
		e.bad = true
	}
}
