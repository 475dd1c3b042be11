package codesite

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// registers is a set of general registers, with x86's numbers.
type registers uint16

const (
	regRAX = iota
	regRCX
	regRDX
	regRBX
	regRSP
	regRBP
	regRSI
	regRDI
)

// The registers that carry integer arguments, and others that are read at a
// call (Go: the closure in rdx, the goroutine in r14).
const (
	argumentsC  registers = 1<<regRDI | 1<<regRSI | 1<<regRDX | 1<<regRCX | 1<<8 | 1<<9                                     // psABI 3.2.3
	argumentsGo registers = 1<<regRAX | 1<<regRBX | 1<<regRCX | 1<<regRDX | 1<<regRDI | 1<<regRSI | 0x0f00&^(1<<12) | 1<<14 // Go's ABIInternal
)

// The registers of the first integer arguments, in order.
var (
	orderC  = [...]registers{1 << regRDI, 1 << regRSI, 1 << regRDX, 1 << regRCX, 1 << 8, 1 << 9}
	orderGo = [...]registers{1 << regRAX, 1 << regRBX, 1 << regRCX, 1 << regRDI, 1 << regRSI, 1 << 8}
)

// arguments returns the registers that must be as at the entry where Args is set.
func (need Need) arguments(isGo bool) registers {
	all, order, read := argumentsC, orderC, registers(0)
	if isGo {
		// Goroutines are told apart by r14, whatever is read.
		all, order, read = argumentsGo, orderGo, 1<<14
	}
	if need.Only == 0 {
		return all
	}
	for n, r := range order {
		if need.Only>>n&1 != 0 {
			read |= r
		}
	}
	return read
}

// effect is what an instruction changes, except flags, vector registers and the
// memory that it pushes to.
type effect struct {
	known bool      // regs and store are known
	regs  registers // written, without the stack pointer
	store bool      // writes memory

	// The stack pointer: if spKnown, sp is added to it.
	spKnown bool
	sp      int64
}

// effect returns the effect of an instruction that does not transfer control.
// An unlisted instruction has an unknown effect on registers and memory but,
// with the exceptions named, does not change the stack pointer.
func (in instruction) effect() effect {
	if strings.HasPrefix(in.text, "endbr") {
		return effect{known: true, spKnown: true}
	}
	e := effect{spKnown: true}
	switch in.Op {
	case x86asm.PUSH:
		return effect{known: !in.has(x86asm.PrefixDataSize), spKnown: !in.has(x86asm.PrefixDataSize), sp: -8}
	case x86asm.POP:
		n, ok := generalRegister(in.Args[0])
		if ok && n == regRSP || in.has(x86asm.PrefixDataSize) {
			return effect{}
		}
		return effect{known: true, regs: set(n, ok), store: !ok, spKnown: true, sp: 8}
	case x86asm.ENTER, x86asm.LEAVE, x86asm.PUSHF, x86asm.PUSHFD, x86asm.PUSHFQ, x86asm.POPF, x86asm.POPFD, x86asm.POPFQ,
		x86asm.CALL, x86asm.INT, x86asm.SYSCALL, x86asm.SYSENTER:
		return effect{}
	case x86asm.XCHG, x86asm.XADD, x86asm.CMPXCHG:
		for _, arg := range in.Args[:2] {
			if n, ok := generalRegister(arg); ok && n == regRSP {
				return effect{}
			}
		}
		return e
	case x86asm.CDQ, x86asm.CQO, x86asm.CWD:
		return effect{known: true, regs: 1 << regRDX, spKnown: true}
	case x86asm.CDQE, x86asm.CWDE, x86asm.CBW:
		return effect{known: true, regs: 1 << regRAX, spKnown: true}
	case x86asm.MUL, x86asm.DIV, x86asm.IDIV:
		return effect{known: true, regs: 1<<regRAX | 1<<regRDX, spKnown: true}
	case x86asm.IMUL:
		if in.Args[1] == nil {
			return effect{known: true, regs: 1<<regRAX | 1<<regRDX, spKnown: true}
		}
	}
	n, isGeneral := generalRegister(in.Args[0])
	switch {
	case isGeneral && n == regRSP && !onlyReads[in.Op]:
		e.sp, e.spKnown = in.movesStack()
		e.known = e.spKnown
	case onlyReads[in.Op]:
		e.known = true
	case writesFirst[in.Op]:
		_, e.store = in.Args[0].(x86asm.Mem)
		e.known, e.regs = true, set(n, isGeneral)
	}
	for _, p := range in.Prefix {
		if p&0xff == 0xf0 || (p&0xff == 0xf2 || p&0xff == 0xf3) && p&x86asm.PrefixImplicit == 0 {
			e.known = false // lock and repeat prefixes
		}
	}
	return e
}

// has reports whether the instruction has a prefix.
func (in instruction) has(prefix x86asm.Prefix) bool {
	for _, p := range in.Prefix {
		if p&0xff == prefix {
			return true
		}
	}
	return false
}

// movesStack returns what an instruction whose destination is rsp adds to it.
func (in instruction) movesStack() (by int64, ok bool) {
	if in.Args[0] != x86asm.RSP {
		return 0, false
	}
	switch src := in.Args[1].(type) {
	case x86asm.Imm:
		switch in.Op {
		case x86asm.ADD:
			return int64(src), true
		case x86asm.SUB:
			return -int64(src), true
		}
	case x86asm.Mem:
		if in.Op == x86asm.LEA && src.Base == x86asm.RSP && src.Index == 0 {
			return src.Disp, true
		}
	}
	return 0, false
}

// set returns the set of register n, or the empty set.
func set(n int, ok bool) registers {
	if !ok {
		return 0
	}
	return 1 << n
}

// generalRegister returns the number of the general register that an argument
// is or is a part of.
func generalRegister(arg x86asm.Arg) (n int, ok bool) {
	r, ok := arg.(x86asm.Reg)
	switch {
	case !ok:
	case x86asm.AL <= r && r <= x86asm.BL:
		return int(r - x86asm.AL), true
	case x86asm.AH <= r && r <= x86asm.BH:
		return int(r - x86asm.AH), true
	case x86asm.SPB <= r && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + regRSP, true
	case x86asm.AX <= r && r <= x86asm.R15W:
		return int(r - x86asm.AX), true
	case x86asm.EAX <= r && r <= x86asm.R15L:
		return int(r - x86asm.EAX), true
	case x86asm.RAX <= r && r <= x86asm.R15:
		return int(r - x86asm.RAX), true
	}
	return 0, false
}

func ops(list ...x86asm.Op) map[x86asm.Op]bool {
	m := make(map[x86asm.Op]bool, len(list))
	for _, op := range list {
		m[op] = true
	}
	return m
}

var (
	// onlyReads change flags at most.
	onlyReads = ops(x86asm.CMP, x86asm.TEST, x86asm.NOP, x86asm.PAUSE, x86asm.BT, x86asm.COMISD, x86asm.COMISS,
		x86asm.UCOMISD, x86asm.UCOMISS, x86asm.PTEST, x86asm.CLD, x86asm.CLC, x86asm.STC, x86asm.CMC,
		x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2, x86asm.PREFETCHW,
		x86asm.LFENCE, x86asm.MFENCE, x86asm.SFENCE)
	// writesFirst write their first argument.
	writesFirst = ops(x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.MOVNTI, x86asm.MOVBE, x86asm.LEA,
		x86asm.XOR, x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.NOT, x86asm.NEG, x86asm.INC, x86asm.DEC,
		x86asm.ADC, x86asm.SBB, x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ROL, x86asm.ROR, x86asm.RCL, x86asm.RCR,
		x86asm.SHLD, x86asm.SHRD, x86asm.IMUL, x86asm.BSWAP, x86asm.BSF, x86asm.BSR, x86asm.BTS, x86asm.BTR,
		x86asm.BTC, x86asm.LZCNT, x86asm.TZCNT, x86asm.POPCNT,
		x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB, x86asm.CMOVBE, x86asm.CMOVE, x86asm.CMOVG, x86asm.CMOVGE,
		x86asm.CMOVL, x86asm.CMOVLE, x86asm.CMOVNE, x86asm.CMOVNO, x86asm.CMOVNP, x86asm.CMOVNS, x86asm.CMOVO,
		x86asm.CMOVP, x86asm.CMOVS,
		x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL,
		x86asm.SETLE, x86asm.SETNE, x86asm.SETNO, x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS,
		x86asm.MOVD, x86asm.MOVQ, x86asm.MOVAPS, x86asm.MOVAPD, x86asm.MOVUPS, x86asm.MOVUPD, x86asm.MOVDQA,
		x86asm.MOVDQU, x86asm.MOVSS, x86asm.MOVSD_XMM, x86asm.MOVHPS, x86asm.MOVLPS, x86asm.MOVHPD, x86asm.MOVLPD,
		x86asm.MOVHLPS, x86asm.MOVLHPS, x86asm.MOVMSKPS, x86asm.MOVMSKPD, x86asm.PMOVMSKB,
		x86asm.PXOR, x86asm.POR, x86asm.PAND, x86asm.PANDN, x86asm.XORPS, x86asm.XORPD, x86asm.ANDPS, x86asm.ANDPD,
		x86asm.ORPS, x86asm.ORPD, x86asm.ADDSS, x86asm.ADDSD, x86asm.SUBSS, x86asm.SUBSD, x86asm.MULSS, x86asm.MULSD,
		x86asm.DIVSS, x86asm.DIVSD, x86asm.SQRTSS, x86asm.SQRTSD, x86asm.ADDPS, x86asm.ADDPD, x86asm.MULPS, x86asm.MULPD,
		x86asm.CVTSI2SD, x86asm.CVTSI2SS, x86asm.CVTTSD2SI, x86asm.CVTTSS2SI, x86asm.CVTSD2SI, x86asm.CVTSS2SI,
		x86asm.CVTSS2SD, x86asm.CVTSD2SS, x86asm.UNPCKLPS, x86asm.UNPCKLPD, x86asm.UNPCKHPD, x86asm.SHUFPS,
		x86asm.PUNPCKLQDQ, x86asm.PUNPCKLDQ, x86asm.PSHUFD, x86asm.PADDD, x86asm.PADDQ, x86asm.PSUBD, x86asm.PSUBQ,
		x86asm.PCMPEQB, x86asm.PCMPEQD, x86asm.PINSRD, x86asm.PINSRQ, x86asm.PEXTRD, x86asm.PEXTRQ)
)
