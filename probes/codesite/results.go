package codesite

import (
	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/dwarf/op"
)

// A compiler that knows all callers of a function, none of which uses the
// result, may drop the result; the register then holds a leftover value (LLVM's
// DeadArgumentElimination.cpp; GCC's ipa-sra.cc). So a function is only known
// to return what its type says if some caller uses it.

const (
	maxResultCalls = 256 // calls of a function that are examined
	maxResultSteps = 64  // instructions after a call
	maxResultDepth = 8   // length of chains of functions that return another's result
)

// ResultRead reports whether code of the module reads function i's result from
// a register after a call of it, or function i is called by its address:
// compilers do not change the results of such functions.
func (m Code) ResultRead(i int, r op.Register) bool {
	if int(r) < 0 || int(r) >= len(registersOfDWARF) {
		return false
	}
	return m.resultRead(i, 1<<registersOfDWARF[r], map[int]bool{})
}

func (c Code) resultRead(i int, register registers, seen map[int]bool) bool {
	if seen[i] || len(seen) >= maxResultDepth {
		return false
	}
	seen[i] = true
	sources, pointed := c.callsOf(c.Entries()[i].Addr)
	if pointed {
		return true
	}
	var becomes []int // functions that return the result as their own
	for _, source := range sources[:min(len(sources), maxResultCalls)] {
		caller := c.functionAt(source)
		if caller < 0 || !c.isInstruction(source) {
			continue
		}
		read, returned := c.readBehind(caller, source, register)
		if read {
			return true
		}
		if returned {
			becomes = append(becomes, caller)
		}
	}
	for _, caller := range becomes {
		if c.resultRead(caller, register, seen) {
			return true
		}
	}
	return false
}

// readBehind follows the code of a function after a call. read: an instruction
// reads the register before it is written; returned: the function returns with
// it unchanged.
func (c Code) readBehind(caller int, call uint64, register registers) (read, returned bool) {
	f := &c.Entries()[caller]
	code, err := c.Image().Code(f.Addr, c.Extent(caller))
	if err != nil || call-f.Addr >= uint64(len(code)) {
		return false, false
	}
	if code[call-f.Addr] != 0xe8 { // a tail call
		return false, true
	}
	seen := map[int]bool{}
	for todo := []int{int(call-f.Addr) + 5}; len(todo) > 0; {
		pos := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for pos >= 0 && pos < len(code) && !seen[pos] && len(seen) < maxResultSteps {
			seen[pos] = true
			in, err := decode(code[pos:])
			if err != nil {
				break
			}
			n := node{instruction: in}
			reads, writes, known := in.uses()
			if reads&register != 0 {
				return true, false
			}
			if in.Op == x86asm.RET {
				returned = true
			}
			if !known || writes&register != 0 || in.Op == x86asm.CALL || in.Op == x86asm.SYSCALL {
				break
			}
			if to, direct := in.target(uint64(pos)); direct && n.jumps() {
				todo = append(todo, int(int64(to)))
			} else if n.jumps() {
				break
			}
			if !n.falls() {
				break
			}
			pos += in.Len
		}
	}
	return false, returned
}

// uses returns the general registers that an instruction reads, and those that
// it writes, in whole or in part. A read that does not affect the result, as in
// xor eax, eax, does not count. known is false for instructions that may use
// others.
func (in instruction) uses() (reads, writes registers, known bool) {
	if in.text != "" || in.Op == x86asm.NOP {
		return 0, 0, in.Op == x86asm.NOP || in.text == "endbr64" || in.text == "endbr32"
	}
	for k, arg := range in.Args {
		n, ok := generalRegister(arg)
		if mem, isMemory := arg.(x86asm.Mem); isMemory {
			b, hasBase := generalRegister(mem.Base)
			x, hasIndex := generalRegister(mem.Index)
			reads |= set(b, hasBase) | set(x, hasIndex)
		} else if k > 0 || !in.overwrites() {
			reads |= set(n, ok)
		}
	}
	const ax, dx = 1 << regRAX, 1 << regRDX
	switch in.Op {
	case x86asm.CDQ, x86asm.CQO, x86asm.CWD:
		return ax, dx, true
	case x86asm.CDQE, x86asm.CWDE, x86asm.CBW:
		return ax, ax, true
	case x86asm.MUL:
		return reads | ax, ax | dx, true
	case x86asm.DIV, x86asm.IDIV:
		return reads | ax | dx, ax | dx, true
	case x86asm.IMUL:
		if in.Args[1] == nil {
			return reads | ax, ax | dx, true
		}
	case x86asm.CMPXCHG:
		return reads | ax, ax, true
	case x86asm.XCHG, x86asm.XADD:
		if in.Args[0] == in.Args[1] {
			return 0, 0, true
		}
		a, isA := generalRegister(in.Args[0])
		b, isB := generalRegister(in.Args[1])
		return reads, set(a, isA) | set(b, isB), true
	case x86asm.CALL, x86asm.JMP, x86asm.RET:
		return reads, 0, true
	case x86asm.PUSH:
		return reads, 0, true
	}
	if in.conditional() {
		return 0, 0, true
	}
	e := in.effect()
	if in.isConstant() {
		reads = 0
	}
	return reads, e.regs, e.known || onlyReads[in.Op]
}

// overwrites reports whether the first argument of an instruction is written but not read.
func (in instruction) overwrites() bool {
	if in.Op == x86asm.IMUL {
		return in.Args[2] != nil
	}
	return in.Op == x86asm.POP || onlyWrites[in.Op]
}

// isConstant reports whether an instruction sets its first argument to a value
// that depends on no register.
func (in instruction) isConstant() bool {
	switch in.Op {
	case x86asm.XOR, x86asm.SUB:
		_, register := in.Args[0].(x86asm.Reg)
		return register && in.Args[0] == in.Args[1]
	case x86asm.SBB:
		_, register := in.Args[0].(x86asm.Reg)
		return register && in.Args[0] == in.Args[1] // depends on the carry flag only
	case x86asm.AND:
		return in.Args[1] == x86asm.Imm(0)
	case x86asm.OR:
		return in.Args[1] == x86asm.Imm(-1)
	}
	return false
}

// onlyWrites write their first argument without reading it.
var onlyWrites = ops(x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.MOVBE, x86asm.LEA, x86asm.LZCNT, x86asm.TZCNT,
	x86asm.POPCNT, x86asm.BSF, x86asm.BSR,
	x86asm.MOVD, x86asm.MOVQ, x86asm.MOVMSKPS, x86asm.MOVMSKPD, x86asm.PMOVMSKB, x86asm.PEXTRD, x86asm.PEXTRQ,
	x86asm.CVTTSD2SI, x86asm.CVTTSS2SI, x86asm.CVTSD2SI, x86asm.CVTSS2SI,
	x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL,
	x86asm.SETLE, x86asm.SETNE, x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS)
