package unwind

// DWARF register numbers on x86-64 (psABI, figure 3.36): rax rdx rcx rbx rsi
// rdi rbp rsp r8-r15, and the return address.
const (
	RegBP     = 6
	RegSP     = 7
	RegIP     = 16
	Registers = 17
)

// Rule computes the caller's frame at one instruction.
type Rule struct {
	// CFA, the canonical frame address, is the caller's stack pointer: register
	// plus offset, or the result of an expression.
	CFAReg    uint8
	CFAOffset int64
	CFAExpr   []byte
	// Saved lists the registers, including the return address (RegIP), whose
	// values in the caller differ from those here. If the stack pointer is not
	// listed, it is the CFA.
	Saved []Saved
	// Outermost: there is no caller.
	Outermost bool
	// Signal: the kernel made the frame to deliver a signal. The caller was
	// interrupted, so its pc is the next instruction to execute, not one after
	// a call.
	Signal bool
}

// Saved locates a register's value in the caller.
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
	AtExpression                 // value of Expr
	IsExpression                 // what Expr says
	InRegister                   // in another register
	unchanged                    // unchanged: not listed
	lost                         // not recoverable: not listed either
)

// registerRule is a Saved under construction.
type registerRule struct {
	how    SavedHow
	offset int64 // for an expression: its index in exprs
}

// state is a row of the table under construction.
type state struct {
	cfaReg    uint64
	cfaOffset int64
	cfaExpr   []byte
	regs      [Registers]registerRule
	exprs     [][]byte
}

// Rule returns the row at pc, with all its registers.
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

// compile converts the row to a rule.
func (s *state) compile(c *common) (Rule, bool) {
	if c.returnReg != RegIP {
		return Rule{}, false
	}
	ra := &s.regs[RegIP]
	if ra.how == unchanged { // there is no return address
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
// is what DW_CFA_restore restores.
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
			if w.reg < Registers { // the others are vector registers, x87 and the like
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
