package codesite

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
	"endoscope/probes/unwind"
)

// Switch is an instruction by which a thread continues on another stack: it
// loads the stack pointer with a value that was not computed from it, as
// swapcontext, setcontext, Boost's jump_fcontext and hand-written code do. The
// restoring of a stack pointer that the same function has saved (alloca,
// alignment, longjmp, unwinding) is none.
type Switch struct {
	Site     Site
	Function string // name of the function, "" if not known
	Entry    uint64 // address where it begins
	// At the site, Register (x86's number) holds the new stack pointer or, if
	// Memory is set, an address: the new stack pointer is the word at
	// Disp from it.
	Register int
	Memory   bool
	Disp     int32
	// Down is added to the stack pointer at the site to get its value just
	// before the switch.
	Down int64
	// IfCarry: the site is a branch that leads to the switch if the carry flag is
	// set.
	IfCarry bool
	// Saved is added to the stack pointer just before the switch to get the value
	// with which the stack will be resumed: the one that the function stores. (A
	// function that only loads belongs to one that only stores, and is called in
	// the same frame.)
	Saved int64
	// Saves: the function also stores the stack pointer, so that the stack that
	// it leaves can be resumed there. Else it may continue further out on the
	// same stack.
	Saves bool
}

// Switches returns the switches of stacks in a module. In a module with Go code
// there are none: goroutines are followed by other means.
func (m Code) Switches() []Switch {
	m.switchesOnce.Do(func() {
		if m.HasGo() {
			return
		}
		var found []Switch
		m.inParts(func() (scan func(elf.Span), done func()) {
			var own []Switch
			scan = func(part elf.Span) {
				eachLikelySwitch(m.Image(), part, func(addr uint64) {
					if s, ok := m.switchAt(addr); ok && len(own) < maxSwitches {
						own = append(own, s)
					}
				})
			}
			return scan, func() { found = append(found, own...) }
		})
		slices.SortFunc(found, func(a, b Switch) int { return cmp.Compare(a.Site.Addr, b.Site.Addr) })
		m.switchList = slices.CompactFunc(found, func(a, b Switch) bool { return a.Site.Addr == b.Site.Addr })
	})
	return m.switchList
}

// maxSwitches limits the switches of one part of a module.
const maxSwitches = 64

// eachLikelySwitch calls f with the address of each place in part whose bytes
// may load the stack pointer.
func eachLikelySwitch(im *elf.Image, part elf.Span, f func(addr uint64)) {
	const ahead = 3
	code, err := im.Code(part.Start, part.End-part.Start+ahead)
	if err != nil {
		return
	}
	n := min(len(code)-ahead, int(part.End-part.Start))
	for pos := 0; pos < n; pos++ {
		if b := code[pos]; b&0xf8 != 0x48 && b != popRSP {
			continue
		}
		var before byte
		if pos > 0 {
			before = code[pos-1]
		}
		if loadsStackPointer(before, code[pos:]) {
			f(part.Start + uint64(pos))
		}
	}
}

const popRSP = 0x5c

// loadsStackPointer reports whether at least 4 bytes of code, which may follow
// the byte before, look like mov, xchg or pop with rsp as the destination and
// neither rsp nor rbp as the source.
func loadsStackPointer(before byte, code []byte) bool {
	rex, opcode, modrm := code[0], code[1], code[2]
	if rex == popRSP {
		// A byte that is very frequent: it must stand among other pops, or
		// before the end of the function.
		return before&0xf0 != 0x40 && (opcode == 0xc3 || opcode&0xf8 == 0x58 || opcode == 0x41 && modrm&0xf8 == 0x58)
	}
	reg, rm, isReg := modrm>>3&7, modrm&7, modrm>>6 == 3
	intoReg := rex&4 == 0 && reg == regRSP          // REX.R selects r12
	intoRM := isReg && rex&1 == 0 && rm == regRSP   // REX.B likewise
	ownReg := rex&4 == 0 && reg&^1 == regRSP        // rsp or rbp
	ownRM := isReg && rex&1 == 0 && rm&^1 == regRSP // likewise
	ownBase := !isReg && rex&1 == 0 && rm == 5 || !isReg && rm == 4 && code[3]&7&^1 == regRSP && rex&1 == 0
	switch opcode {
	case 0x8b:
		return intoReg && !ownRM && !ownBase
	case 0x89:
		return intoRM && !ownReg
	case 0x87:
		return intoReg && !ownRM && !ownBase || intoRM && !ownReg
	case 0x94: // xchg rax, rsp
		return rex&1 == 0
	}
	return false
}

// switchAt decides whether the instruction at addr is a switch: it decodes the
// code around it from the start.
func (m Code) switchAt(addr uint64) (s Switch, ok bool) {
	home, i := m.unit(addr)
	if addr-home.Start >= maxBodyBytes || i >= 0 && leavesCalls(m.names(i)) {
		return s, false
	}
	code, err := m.Image().Code(home.Start, min(home.End-home.Start, addr-home.Start+maxInstruction))
	if err != nil {
		return s, false
	}
	var nodes []node
	var own stackCopies
	for pos := 0; home.Start+uint64(pos) <= addr; {
		in, err := decode(code[min(pos, len(code)):])
		if err != nil {
			return s, false
		}
		n := node{in, home.Start + uint64(pos), code[pos : pos+in.Len]}
		nodes = append(nodes, n)
		if n.addr == addr {
			break
		}
		own.follow(in)
		pos += in.Len
	}
	last := &nodes[len(nodes)-1]
	if last.addr != addr || !s.operand(last.instruction) || own.holds(s.Register) || last.Op == x86asm.POP && own.pushed {
		return s, false
	}
	s.Entry = home.Start
	s.Saves, s.Saved = own.saves(last.instruction)
	if !s.Saves && !s.Memory && preserved&(1<<s.Register) != 0 {
		return s, false // it holds what the function, or the end of its stack, kept there
	}
	if !m.switchesFrame(last, s) {
		return s, false
	}
	if i >= 0 {
		s.Function = m.Function(i).Name
	}
	if s.Site, err = At(m.Image(), addr); err != nil {
		return s, false
	}
	m.cheapen(&s, nodes, home, i)
	s.Site.PastEntry = s.Site.Addr != home.Start
	return s, true
}

// unit returns the code that an address belongs to, by the unwind table or the
// symbols, and the index of its function, or -1.
func (m Code) unit(addr uint64) (elf.Span, int) {
	i := m.functionAt(addr)
	if i >= 0 {
		return elf.Span{Start: m.Entries()[i].Addr, End: m.Entries()[i].Addr + m.Extent(i)}, i
	}
	if e := m.UnwindTable().Find(addr); e != nil {
		return elf.Span{Start: e.Start, End: e.End}, -1
	}
	return elf.Span{}, -1
}

func (m Code) names(i int) []string {
	f := m.Function(i)
	return append([]string{f.Mangled}, f.Aliases...)
}

// leavesCalls reports whether a function of these names continues further out
// on the same stack: longjmp and unwinders.
func leavesCalls(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		reason := returnTroubles[withoutUnderscores(name)]
		return reason == jumps || reason == unwinds || strings.HasPrefix(name, "_Unwind_") || strings.HasPrefix(name, "uw_")
	})
}

// operand sets Register, Memory and Disp from the instruction; false if it does
// not load the stack pointer from elsewhere.
func (s *Switch) operand(in instruction) bool {
	from := in.Args[1]
	switch in.Op {
	case x86asm.POP:
		s.Register, s.Memory = regRSP, true
		return in.Args[0] == x86asm.RSP
	case x86asm.XCHG:
		if from == x86asm.RSP {
			from = in.Args[0]
		} else if in.Args[0] != x86asm.RSP {
			return false
		}
	case x86asm.MOV:
		if in.Args[0] != x86asm.RSP {
			return false
		}
	default:
		return false
	}
	if mem, ok := from.(x86asm.Mem); ok {
		n, general := generalRegister(mem.Base)
		s.Register, s.Memory, s.Disp = n, true, int32(mem.Disp)
		return general && mem.Index == 0 && mem.Segment == 0 && n != regRSP && n != regRBP && int64(s.Disp) == mem.Disp
	}
	n, general := generalRegister(from)
	s.Register = n
	return general && n != regRSP && n != regRBP
}

// switchesFrame reports whether the unwind table allows a switch at n. Where it
// finds the frame by a register other than the stack pointer, before or after
// the instruction, the function has one frame in two places, or restores its own
// stack pointer; except that setcontext describes the frame to be restored by
// the context that it loads it from.
func (m Code) switchesFrame(n *node, s Switch) bool {
	e := m.UnwindTable().Find(n.addr)
	if e == nil {
		return true
	}
	if e.IsSignal() {
		return false
	}
	for _, at := range []uint64{n.addr, n.end()} {
		row, ok := e.Row(at)
		if !ok || !e.Contains(at) || !row.CFAKnown || row.CFAReg == unwind.RegSP {
			continue
		}
		if !s.Memory || preserved&(1<<s.Register) != 0 || row.CFAReg >= uint64(len(dwarfRegisters)) || dwarfRegisters[row.CFAReg] != s.Register {
			return false
		}
	}
	return true
}

// dwarfRegisters are x86's numbers of the registers that DWARF numbers
// otherwise.
var dwarfRegisters = [...]int{regRAX, regRDX, regRCX, regRBX, regRSI, regRDI, regRBP, regRSP, 8, 9, 10, 11, 12, 13, 14, 15}

// preserved are the registers that calls preserve, except those of frames.
const preserved registers = 1<<regRBX | 1<<12 | 1<<13 | 1<<14 | 1<<15

// stackCopies follows, in the order of the code, where copies of the stack
// pointer are, and how they differ from it.
type stackCopies struct {
	sp     int64     // the stack pointer, less that at the start of the code
	regs   registers // that hold a copy
	values [16]int64 // of those, as sp
	stored bool      // one was stored, elsewhere than in the frame
	last   int64     // its value
	pushed bool      // one was pushed
}

// saves reports whether the stack pointer is saved when the instruction switches,
// and what was added to it: a copy was stored or is passed on in a register.
func (c *stackCopies) saves(in instruction) (yes bool, added int64) {
	switch {
	case in.Op == x86asm.XCHG:
		return true, 0
	case c.stored:
		return true, c.last - c.sp
	}
	for n, v := range c.values {
		if c.holds(n) {
			return true, v - c.sp
		}
	}
	return false, 8 // the return address
}

// value returns the value of register n, if it is a copy or the stack pointer.
func (c *stackCopies) value(n int) int64 {
	if n == regRSP {
		return c.sp
	}
	return c.values[n]
}

func (c *stackCopies) copy(to int, value int64) {
	if to != regRSP && to != regRBP {
		c.regs |= 1 << to
		c.values[to] = value
	}
}

func (c *stackCopies) holds(n int) bool { return c.regs&(1<<n) != 0 }

func (c *stackCopies) follow(in instruction) {
	e := in.effect()
	defer func() {
		if e.spKnown {
			c.sp += e.sp
		}
	}()
	switch in.Op {
	case x86asm.CALL, x86asm.SYSCALL:
		c.regs &= preserved
		return
	case x86asm.PUSH:
		n, ok := generalRegister(in.Args[0])
		c.pushed = c.pushed || ok && (n == regRSP || c.holds(n))
		return
	case x86asm.MOV:
		n, ok := generalRegister(in.Args[1])
		isCopy := ok && (n == regRSP || c.holds(n))
		if mem, isMem := in.Args[0].(x86asm.Mem); isMem {
			if isCopy && mem.Base != x86asm.RSP && mem.Base != x86asm.RBP {
				c.stored, c.last = true, c.value(n)
			}
			return
		}
		if to, isReg := generalRegister(in.Args[0]); isReg && isCopy {
			c.copy(to, c.value(n))
			return
		}
	case x86asm.LEA:
		if mem, isMem := in.Args[1].(x86asm.Mem); isMem && mem.Base == x86asm.RSP && mem.Index == 0 {
			if to, ok := generalRegister(in.Args[0]); ok {
				c.copy(to, c.sp+mem.Disp)
			}
			return
		}
	}
	if e.known {
		c.regs &^= e.regs
	} else if n, ok := generalRegister(in.Args[0]); ok {
		c.regs &^= 1 << n
	}
}

// cheapen moves the site of a switch, the last of nodes, to an earlier
// instruction that the kernel emulates and that always leads to it, if the
// operands are the same there: a push, or the check of a system call's result, as
// in the C library.
func (m Code) cheapen(s *Switch, nodes []node, home elf.Span, i int) {
	if s.Site.Method == Emulated || s.Register == regRSP {
		return
	}
	moved, register := int64(0), s.Register
	for k := len(nodes) - 2; k >= 0; k-- {
		n := &nodes[k]
		e := n.effect()
		switch {
		case n.Op == x86asm.JAE:
			e = effect{known: true, spKnown: true}
		case n.Op == x86asm.LDMXCSR, n.Op == x86asm.FLDENV, n.Op == x86asm.FLDCW:
			e.known = true // they read memory
		}
		if n.transfers() && n.Op != x86asm.JAE || !e.known || !e.spKnown || s.Memory && e.store {
			return
		}
		if e.regs&(1<<register) != 0 {
			from, ok := generalRegister(n.Args[1])
			if n.Op != x86asm.MOV || n.Args[0] != x86asm.RAX+x86asm.Reg(register) || !ok || from == regRSP || from == regRBP {
				return
			}
			register = from
		}
		moved += e.sp
		if n.Op != x86asm.PUSH && n.Op != x86asm.JAE {
			continue
		}
		if how, err := method(n.bytes, n.Len); err != nil || how != Emulated || m.areJumpedTo(nodes[k+1:], home, i) {
			return
		}
		if site, err := At(m.Image(), n.addr); err == nil {
			s.Site, s.Down, s.Register, s.IfCarry = site, moved, register, n.Op == x86asm.JAE
		}
		return
	}
}

// areJumpedTo reports whether a branch may lead to one of the last instructions
// of function i.
func (m Code) areJumpedTo(list []node, home elf.Span, i int) bool {
	if i < 0 {
		return true
	}
	code, err := m.Image().Code(home.Start, home.End-home.Start)
	first, last := list[0].addr, list[len(list)-1].addr
	return err != nil || mayJumpIndirectly(code[:last-home.Start]) || isEntered(code, int(first-home.Start), int(last-home.Start)) ||
		m.entersFromOutside(i, elf.Span{Start: first, End: last + 1})
}
