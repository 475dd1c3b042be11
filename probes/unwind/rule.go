package unwind

// Registers as DWARF numbers them on x86-64 (psABI, figure 3.36): rax rdx rcx
// rbx rsi rdi rbp rsp r8-r15, and the return address.
const (
	RegBP     = 6
	RegSP     = 7
	RegIP     = 16
	Registers = 17
)

// Rule says how to get from a frame to that of its caller, for one instruction.
type Rule struct {
	// CFA, the canonical frame address, is the caller's stack pointer:
	// register plus offset, or what an expression computes.
	CFAReg    uint8
	CFAOffset int64
	CFAExpr   []byte
	// Saved are the registers, the return address (RegIP) among them, whose
	// values in the caller are not those that they have here. The stack pointer
	// is the CFA where it is not listed.
	Saved []Saved
	// Outermost: there is no caller.
	Outermost bool
	// Signal: the frame was made by the kernel to deliver a signal. The caller
	// was interrupted, so its instruction is the next to execute, not one
	// after a call.
	Signal bool
}

// Saved says where a register's value in the caller is found.
type Saved struct {
	Reg    uint8
	How    SavedHow
	Offset int64  // from the CFA; for InRegister the register
	Expr   []byte // starts with the CFA on its stack
}

// SavedHow is a rule of a register (DWARF 5, 6.4.1).
type SavedHow uint8

// The rules of registers.
const (
	AtOffset     SavedHow = iota // in memory at CFA+Offset
	IsOffset                     // CFA+Offset itself
	AtExpression                 // in memory where Expr says
	IsExpression                 // what Expr says
	InRegister                   // in another register
	unchanged                    // as it is here: such registers are not listed
	lost                         // not recoverable: nor are these
)

// registerRule is a Saved under construction.
type registerRule struct {
	how    SavedHow
	offset int64 // of an expression: which of exprs
}

// state is a row of the table under construction.
type state struct {
	cfaReg    uint64
	cfaOffset int64
	cfaExpr   []byte
	regs      [Registers]registerRule
	exprs     [][]byte
}

// Rule is the row at pc, with all its registers.
func (e *Entry) Rule(pc uint64) (Rule, bool) {
	s := state{cfaReg: Registers}
	for i := range s.regs {
		s.regs[i].how = unchanged
	}
	if !s.run(e.common.program, e.common, e.Start, pc, &s) {
		return Rule{}, false
	}
	initial := s
	if !s.run(e.program, e.common, e.Start, pc, &initial) {
		return Rule{}, false
	}
	return s.compile(e.common)
}

// compile makes the row a rule.
func (s *state) compile(c *common) (Rule, bool) {
	if c.returnReg != RegIP {
		return Rule{}, false
	}
	ra := &s.regs[RegIP]
	if ra.how == unchanged { // nowhere to return to
		return Rule{}, false
	}
	r := Rule{Signal: c.signalFrame, Outermost: ra.how == lost}
	switch {
	case s.cfaExpr != nil:
		r.CFAExpr = s.cfaExpr
	case s.cfaReg < Registers:
		r.CFAReg, r.CFAOffset = uint8(s.cfaReg), s.cfaOffset
	default:
		return r, r.Outermost
	}
	n := 0
	for reg := range s.regs {
		if how := s.regs[reg].how; how != unchanged && how != lost {
			n++
		}
	}
	r.Saved = make([]Saved, 0, n)
	for reg, from := range s.regs {
		if from.how != unchanged && from.how != lost {
			saved := Saved{Reg: uint8(reg), How: from.how, Offset: from.offset}
			if from.how == AtExpression || from.how == IsExpression {
				saved.Offset, saved.Expr = 0, s.exprs[from.offset]
			}
			r.Saved = append(r.Saved, saved)
		}
	}
	return r, true
}

// run executes a call frame program until the row for pc is complete. initial
// is what restoring a register restores.
func (s *state) run(program []byte, c *common, loc, pc uint64, initial *state) bool {
	w := walkFrame(program, c, loc, pc, allRegisters)
	var saved []state
	for w.next() {
		switch w.do {
		case setCFA:
			s.cfaReg, s.cfaOffset, s.cfaExpr = w.reg, w.offset, nil
		case setCFARegister:
			s.cfaReg = w.reg
		case setCFAOffset:
			s.cfaOffset = w.offset
		case setCFAExpression:
			s.cfaExpr = w.expr
		case setRegister:
			if w.how == InRegister && uint64(w.offset) >= Registers {
				return false
			}
			if w.reg < Registers { // the others are of vectors, x87 and the like
				s.regs[w.reg] = registerRule{w.how, w.offset}
				if w.how == AtExpression || w.how == IsExpression {
					s.regs[w.reg].offset = int64(len(s.exprs))
					s.exprs = append(s.exprs, w.expr)
				}
			}
		case restoreRegister:
			if w.reg < Registers {
				s.regs[w.reg] = initial.regs[w.reg]
			}
		case rememberState:
			if len(saved) > maxRemembered {
				return false
			}
			saved = append(saved, *s)
		case restoreState:
			if len(saved) == 0 {
				return false
			}
			*s, saved = saved[len(saved)-1], saved[:len(saved)-1]
		}
	}
	return w.complete()
}
