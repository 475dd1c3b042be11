package symbols

// Registers as DWARF numbers them on x86-64 (psABI, figure 3.36): rax rdx rcx
// rbx rsi rdi rbp rsp r8-r15, and the return address.
const (
	RegBP       = 6
	RegSP       = dwarfRSP
	RegIP       = 16
	UnwindWords = 17
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

// UnwindRule is the rule for the instruction at addr, the address as the file
// numbers it; false if the module does not say. The return address of a call
// belongs to the instruction before it: ask for that address less one.
func (m *Module) UnwindRule(addr uint64) (Rule, bool) {
	if m.hasGo {
		if rule, ok := m.goRule(addr); ok {
			return rule, true
		}
	}
	e := m.unwind.find(addr)
	if e == nil {
		return Rule{}, false
	}
	return e.rule(addr)
}

// goRule is the rule for Go's code, which its own table describes exactly, also
// where a frame has no frame pointer yet. Functions that begin a stack have no
// caller (runtime.topofstack).
func (m *Module) goRule(addr uint64) (Rule, bool) {
	i, ok := m.FunctionAt(addr)
	if !ok || !m.functions[i].golang {
		return Rule{}, false
	}
	if m.goOutermost(i) {
		return Rule{Outermost: true}, true
	}
	depth, known := m.goDepth(m.functions[i].addr, addr)
	if !known {
		return Rule{}, false
	}
	rule := Rule{CFAReg: RegSP, CFAOffset: depth + 8, Saved: []Saved{{Reg: RegIP, How: AtOffset, Offset: -8}}}
	if depth > 0 { // frames save the caller's frame pointer at their top
		rule.Saved = append(rule.Saved, Saved{Reg: RegBP, How: AtOffset, Offset: -16})
	}
	return rule, true
}

// goOutermost reports whether function i is the first of a stack that Go's
// runtime makes.
func (m *Module) goOutermost(i int) bool {
	f := &m.functions[i]
	switch m.text(m.names[f.first], nil) {
	case "runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.morestack", "runtime.rt0_go", "runtime.asmcgocall", "runtime.systemstack", "runtime.sigreturn__sigaction":
		return true
	}
	return false
}

// registerRule is a Saved under construction.
type registerRule struct {
	how    SavedHow
	offset int64
	expr   []byte
}

// unwindState is a row of the table under construction.
type unwindState struct {
	cfaReg    uint64
	cfaOffset int64
	cfaExpr   []byte
	regs      [UnwindWords]registerRule
}

// rule is the row at pc, with all its registers.
func (e *unwindEntry) rule(pc uint64) (Rule, bool) {
	s := unwindState{cfaReg: UnwindWords}
	for i := range s.regs {
		s.regs[i].how = unchanged
	}
	if !s.run(e.common.program, e.common, e.start, pc, &s) {
		return Rule{}, false
	}
	initial := s
	if !s.run(e.program, e.common, e.start, pc, &initial) {
		return Rule{}, false
	}
	return s.compile(e.common)
}

// compile makes the row a rule.
func (s *unwindState) compile(c *unwindCommon) (Rule, bool) {
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
	case s.cfaReg < UnwindWords:
		r.CFAReg, r.CFAOffset = uint8(s.cfaReg), s.cfaOffset
	default:
		return r, r.Outermost
	}
	for reg, from := range s.regs {
		if from.how != unchanged && from.how != lost {
			r.Saved = append(r.Saved, Saved{Reg: uint8(reg), How: from.how, Offset: from.offset, Expr: from.expr})
		}
	}
	return r, true
}

// run executes a call frame program until the row for pc is complete. initial
// is what restoring a register restores.
func (s *unwindState) run(program []byte, c *unwindCommon, loc, pc uint64, initial *unwindState) bool {
	r := frameReader{b: program}
	var saved []unwindState
	set := func(reg uint64, rule registerRule) {
		if reg < UnwindWords { // the others are of vectors, x87 and the like
			s.regs[reg] = rule
		}
	}
	factored := func(n uint64) int64 { return int64(n) * c.dataAlign }
	for len(r.b) > 0 && !r.bad && loc <= pc {
		op := r.byte()
		switch operand := uint64(op & 0x3f); op & 0xc0 {
		case cfaAdvance:
			loc += operand * c.codeAlign
			continue
		case cfaOffset:
			set(operand, registerRule{how: AtOffset, offset: factored(r.uleb())})
			continue
		case cfaRestore:
			if operand < UnwindWords {
				set(operand, initial.regs[operand])
			}
			continue
		}
		switch op {
		case cfaNop:
		case cfaAdvance1:
			loc += uint64(r.byte()) * c.codeAlign
		case cfaAdvance2:
			loc += r.uint(2) * c.codeAlign
		case cfaAdvance4:
			loc += r.uint(4) * c.codeAlign
		case cfaOffsetExtended:
			reg := r.uleb()
			set(reg, registerRule{how: AtOffset, offset: factored(r.uleb())})
		case cfaOffsetExtendedSigned:
			reg := r.uleb()
			set(reg, registerRule{how: AtOffset, offset: r.sleb() * c.dataAlign})
		case cfaGNUNegativeOffsetExten:
			reg := r.uleb()
			set(reg, registerRule{how: AtOffset, offset: -factored(r.uleb())})
		case cfaRestoreExtended:
			if reg := r.uleb(); reg < UnwindWords {
				set(reg, initial.regs[reg])
			}
		case cfaUndefined:
			set(r.uleb(), registerRule{how: lost})
		case cfaSameValue:
			set(r.uleb(), registerRule{how: unchanged})
		case cfaRegister:
			reg, from := r.uleb(), r.uleb()
			if from >= UnwindWords {
				return false
			}
			set(reg, registerRule{how: InRegister, offset: int64(from)})
		case cfaValOffset:
			reg := r.uleb()
			set(reg, registerRule{how: IsOffset, offset: factored(r.uleb())})
		case cfaValOffsetSigned:
			reg := r.uleb()
			set(reg, registerRule{how: IsOffset, offset: r.sleb() * c.dataAlign})
		case cfaExpression:
			reg := r.uleb()
			set(reg, registerRule{how: AtExpression, expr: r.bytes(r.uleb())})
		case cfaValExpression:
			reg := r.uleb()
			set(reg, registerRule{how: IsExpression, expr: r.bytes(r.uleb())})
		case cfaDefCFA:
			s.cfaReg, s.cfaOffset, s.cfaExpr = r.uleb(), int64(r.uleb()), nil
		case cfaDefCFASigned:
			s.cfaReg, s.cfaOffset, s.cfaExpr = r.uleb(), r.sleb()*c.dataAlign, nil
		case cfaDefCFARegister:
			s.cfaReg = r.uleb()
		case cfaDefCFAOffset:
			s.cfaOffset = int64(r.uleb())
		case cfaDefCFAOffsetSigned:
			s.cfaOffset = r.sleb() * c.dataAlign
		case cfaDefCFAExpression:
			s.cfaExpr = r.bytes(r.uleb())
		case cfaRememberState:
			if len(saved) > 64 {
				return false
			}
			saved = append(saved, *s)
		case cfaRestoreState:
			if len(saved) == 0 {
				return false
			}
			*s, saved = saved[len(saved)-1], saved[:len(saved)-1]
		case cfaGNUArgsSize:
			r.uleb()
		default:
			return false
		}
	}
	return !r.bad
}

// bytes returns the next n bytes, never nil.
func (r *frameReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad = true
		return []byte{}
	}
	b := r.b[:n:n]
	r.skip(n)
	return b
}
