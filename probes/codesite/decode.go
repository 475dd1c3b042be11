package codesite

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// instruction is a decoded instruction.
type instruction struct {
	x86asm.Inst        // Op is 0 for instructions that x86asm does not know
	text        string // text of those
}

var errUndecodable = errors.New("cannot be decoded")

// decode decodes the first instruction of code. In addition to x86asm it knows
// endbr64, with which -fcf-protection begins every function, and the lengths of
// AVX instructions.
func decode(code []byte) (in instruction, err error) {
	defer func() {
		if recover() != nil {
			err = errUndecodable
		}
	}()
	if len(code) >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3]&^1 == 0xfa {
		text := "endbr64"
		if code[3] == 0xfb {
			text = "endbr32"
		}
		return instruction{x86asm.Inst{Len: 4}, text}, nil
	}
	if e := encodingOf(code); e.vex {
		n, ok := vexLength(code, e)
		if !ok {
			return in, errUndecodable
		}
		return instruction{x86asm.Inst{Len: n}, fmt.Sprintf("(avx % x)", code[:n])}, nil
	}
	in.Inst, err = x86asm.Decode(code, 64)
	if err != nil || in.Len == 0 || in.Len > len(code) {
		return in, errUndecodable
	}
	return in, nil
}

// pushLength returns the length of the register push that code begins with, as
// most functions do; 0: another instruction.
func pushLength(code []byte) int {
	switch {
	case len(code) > 0 && code[0]&^7 == 0x50:
		return 1
	case len(code) > 1 && code[0] == 0x41 && code[1]&^7 == 0x50:
		return 2
	}
	return 0
}

// syntax returns the instruction at addr in Intel syntax.
func (in instruction) syntax(addr uint64) string {
	if in.text != "" {
		return in.text
	}
	return x86asm.IntelSyntax(in.Inst, addr, nil)
}

// target returns the target of a relative branch or call at addr.
func (in instruction) target(addr uint64) (uint64, bool) {
	if in.Op != 0 {
		if rel, ok := in.Args[0].(x86asm.Rel); ok {
			return addr + uint64(in.Len) + uint64(int64(rel)), true
		}
	}
	return 0, false
}

// transfers reports whether execution may continue elsewhere than after the
// instruction, which ends a basic block.
func (in instruction) transfers() bool {
	switch in.Op {
	case x86asm.CALL, x86asm.JMP, x86asm.RET, x86asm.SYSCALL, x86asm.INT, x86asm.INTO,
		x86asm.UD0, x86asm.UD1, x86asm.UD2, x86asm.HLT, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ,
		x86asm.LCALL, x86asm.LJMP, x86asm.LRET:
		return true
	}
	return in.conditional()
}

// conditional reports whether the instruction is a branch on a condition.
func (in instruction) conditional() bool {
	switch in.Op {
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JCXZ, x86asm.JE, x86asm.JECXZ, x86asm.JG,
		x86asm.JGE, x86asm.JL, x86asm.JLE, x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO,
		x86asm.JP, x86asm.JRCXZ, x86asm.JS, x86asm.LOOP, x86asm.LOOPE, x86asm.LOOPNE, x86asm.XBEGIN:
		return true
	}
	return false
}

// encoding is an instruction as the kernel's decoder sees it.
type encoding struct {
	prefixes []byte // legacy prefixes
	rex      byte
	vex      bool // VEX or EVEX: opcode and vexMap are of the vector space
	vexMap   byte
	opcode   int // index of the opcode
}

func encodingOf(code []byte) (e encoding) {
	n := 0
	for n < len(code) && isLegacyPrefix(code[n]) {
		n++
	}
	e.prefixes = code[:n]
	at := func(i int) byte {
		if i < len(code) {
			return code[i]
		}
		return 0
	}
	switch at(n) {
	case 0xc5:
		e.vex, e.vexMap, e.opcode = true, 1, n+2
	case 0xc4:
		e.vex, e.vexMap, e.opcode = true, at(n+1)&0x1f, n+3
	case 0x62:
		e.vex, e.vexMap, e.opcode = true, at(n+1)&0x07, n+4
	default:
		if at(n)&0xf0 == 0x40 {
			e.rex = at(n)
			n++
		}
		e.opcode = n
	}
	return e
}

func isLegacyPrefix(b byte) bool {
	switch b {
	case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3:
		return true
	}
	return false
}

// vexLength is the length of an AVX instruction (Intel SDM 2.3, 2.7).
func vexLength(code []byte, e encoding) (int, bool) {
	n := e.opcode
	if n >= len(code) || e.vexMap < 1 || e.vexMap > 6 || e.vexMap == 4 {
		return 0, false
	}
	opcode := code[n]
	n++
	if e.vexMap == 1 && opcode == 0x77 { // vzeroupper, vzeroall
		return n, true
	}
	if n+1 >= len(code) {
		if n >= len(code) || code[n]>>6 != 3 {
			return 0, false
		}
	}
	mod, rm := code[n]>>6, code[n]&7
	n++
	if mod != 3 {
		if rm == 4 { // SIB
			rm = code[n] & 7
			n++
		}
		switch {
		case mod == 1:
			n++
		case mod == 2, rm == 5:
			n += 4
		}
	}
	if e.vexMap == 3 {
		n++ // every instruction of map 0f3a has an immediate byte
	} else if e.vexMap == 1 {
		switch opcode {
		case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
			n++
		}
	}
	return n, n <= len(code)
}

// method returns how the kernel executes the instruction at the beginning of
// code when it is probed. The error, to be read after "which", says why a probe
// on it would be refused, never fire or cause harm (arch/x86/kernel/uprobes.c:
// uprobe_init_insn, branch_setup_xol_ops, push_setup_xol_ops). Where kernels
// differ, the older one's answer is returned: nops other than the two named
// here are emulated from 6.18 on.
func method(code []byte, length int) (string, error) {
	e := encodingOf(code[:length])
	if e.opcode >= length {
		return "", errUndecodable
	}
	operandSize := false
	for _, p := range e.prefixes {
		switch p {
		case 0x26, 0x2e, 0x36, 0x3e:
			return "", fmt.Errorf("has a segment prefix (%02x) that the kernel refuses to probe", p)
		case 0xf0:
			return "", errors.New("has a lock prefix (f0) that the kernel refuses to probe")
		case 0x66:
			operandSize = true
		}
	}
	opcode := code[e.opcode]
	second := byte(0)
	if e.opcode+1 < length {
		second = code[e.opcode+1]
	}
	branch := opcode>>4 == 7 || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb
	switch {
	case refusedOpcodes.has(opcode), !e.vex && opcode == 0x0f && refusedTwoByte.has(second):
		return "", errors.New("the kernel refuses to step")
	case opcode == 0x8e && second>>3&7 == 2: // mov ss: masks exceptions for one instruction
		return "", errors.New("loads the stack segment: the kernel refuses to step that")
	case e.vex && (branch || opcode == 0x90):
		// The kernel looks at the opcode byte and ignores its map.
		return "", errors.New("the kernel treats as a jump")
	case e.vexMap == 3 && (opcode&^3 == 0x5c || opcode&^0x17 == 0x68):
		return "", errors.New("is of AMD's FMA4, which the kernel cannot decode")
	case e.vex:
		return Stepped, nil
	case opcode == 0x9c:
		// A stepped pushf pushes flags with the trap flag set: the popf that
		// follows kills the target.
		return "", errors.New("pushes the flags, and with them those of the stepping kernel")
	case opcode == 0x90 && e.rex&1 != 0:
		return "", errors.New("the kernel treats as a nop")
	}
	if branch || opcode == 0x0f && second>>4 == 8 {
		if operandSize {
			return "", errors.New("is a branch with an operand size prefix: the kernel refuses to probe that")
		}
		return Emulated, nil
	}
	switch {
	case opcode>>3 == 0x50>>3 && (length == 1 || length == 2 && e.rex == 0x41):
		return Emulated, nil
	case opcode == 0x90 && !(len(e.prefixes) > 0 && e.prefixes[0] == 0xf3): // f3 90 is pause
		return Emulated, nil
	case length == 5 && bytes.Equal(code[:5], fiveByteNop):
		return Nop, nil
	}
	return Stepped, nil
}

// opcodeSet is a set of opcode bytes.
type opcodeSet [4]uint64

func (s *opcodeSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

func opcodes(list ...byte) *opcodeSet {
	var s opcodeSet
	for _, b := range list {
		s[b>>6] |= 1 << (b & 63)
	}
	return &s
}

// The zeros of good_insns_64. The kernel never consults its table of two-byte
// opcodes (0f is good in the first), so it accepts system calls, which crash
// the target when stepped; those are refused here.
var (
	refusedOpcodes = opcodes(0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f,
		0x60, 0x61, 0x62, 0x6c, 0x6d, 0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf,
		0xd4, 0xd5, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea, 0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb)
	refusedTwoByte = opcodes(0x05, 0x07, 0x0b, 0x34, 0x35) // syscall, sysret, ud2, sysenter, sysexit
)
