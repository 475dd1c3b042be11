package op

import "endoscope/probes/dwarf/leb128"

// Memory is the memory that an expression reads.
type Memory interface {
	// Word reads the 8 bytes at addr.
	Word(addr uint64) (uint64, bool)
}

// Limits on expressions, which may loop. Those of compilers and of glibc have
// about a dozen steps.
const (
	maxSteps = 1000
	maxStack = 64
)

// Evaluate computes an expression of an unwind rule (DWARF 5, 2.5.1; operations
// that 6.4.2 forbids are refused). initial is the initial stack, the CFA if
// there is one.
func Evaluate(code []byte, regs []uint64, memory Memory, initial ...uint64) (uint64, bool) {
	m := machine{regs: regs, memory: memory}
	for _, v := range initial {
		m.push(v)
	}
	r := leb128.NewReader(code)
	for range maxSteps {
		if r.Failed() || m.failed {
			return 0, false
		}
		if r.Len() == 0 {
			v := m.pop()
			return v, !m.failed
		}
		o, ok := Next(&r)
		if !ok {
			return 0, false
		}
		m.execute(o, &r)
	}
	return 0, false
}

// machine is the stack machine of Evaluate.
type machine struct {
	regs   []uint64
	memory Memory
	stack  [maxStack]uint64
	n      int
	failed bool
}

func (m *machine) push(v uint64) {
	if m.n == len(m.stack) {
		m.failed = true
		return
	}
	m.stack[m.n] = v
	m.n++
}

func (m *machine) pop() uint64 {
	if m.n == 0 {
		m.failed = true
		return 0
	}
	m.n--
	return m.stack[m.n]
}

// pick pushes a copy of the i-th entry from the top.
func (m *machine) pick(i int) {
	if i >= m.n {
		m.failed = true
		return
	}
	m.push(m.stack[m.n-1-i])
}

// execute executes an operation. r is after it, and moved by jumps.
func (m *machine) execute(o Operation, r *leb128.Reader) {
	switch o.Code {
	case Addr, Consts:
		m.push(uint64(o.Value))
	case Breg0:
		if o.Register >= len(m.regs) {
			m.failed = true
			return
		}
		m.push(m.regs[o.Register] + uint64(o.Value))
	case Deref:
		v, ok := m.memory.Word(m.pop())
		m.failed = m.failed || !ok
		m.push(v)
	case Dup:
		m.pick(0)
	case Drop:
		m.pop()
	case Over:
		m.pick(1)
	case Pick:
		m.pick(int(o.Value))
	case Swap:
		a, b := m.pop(), m.pop()
		m.push(a)
		m.push(b)
	case Bra:
		if m.pop() != 0 {
			r.Jump(o.Value)
		}
	case Skip:
		r.Jump(o.Value)
	case Neg:
		m.push(-m.pop())
	case Not:
		m.push(^m.pop())
	case PlusUconst:
		m.push(m.pop() + uint64(o.Value))
	case Nop:
	default:
		b, a := m.pop(), m.pop()
		v, ok := compute(o.Code, a, b)
		m.failed = m.failed || !ok
		m.push(v)
	}
}

// compute applies an operation to the two top entries.
func compute(code byte, a, b uint64) (uint64, bool) {
	truth := func(is bool) (uint64, bool) {
		if is {
			return 1, true
		}
		return 0, true
	}
	switch code {
	case And:
		return a & b, true
	case Minus:
		return a - b, true
	case Mul:
		return a * b, true
	case Or:
		return a | b, true
	case Plus:
		return a + b, true
	case Shl:
		return a << b, true
	case Shr:
		return a >> b, true
	case Shra:
		return uint64(int64(a) >> b), true
	case Xor:
		return a ^ b, true
	case Eq:
		return truth(a == b)
	case Ge:
		return truth(int64(a) >= int64(b))
	case Gt:
		return truth(int64(a) > int64(b))
	case Le:
		return truth(int64(a) <= int64(b))
	case Lt:
		return truth(int64(a) < int64(b))
	case Ne:
		return truth(a != b)
	}
	return 0, false
}
