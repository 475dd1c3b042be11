package codesite

import "golang.org/x/arch/x86/x86asm"

// Most Go functions begin by comparing the stack pointer with the goroutine's
// stack limit; if the stack must grow, morestack enters the function a second
// time. A site before that branch would count such a call twice.

// stackCheck returns the number of bytes up to the end of the stack check at
// the start of code, 0 if there is none (NOSPLIT). cmd/internal/obj/x86
// (stacksplit) emits three forms of it, the longest with two branches: a branch
// belongs to it if it leads to a call of morestack, or to a call that is
// followed by a jump to the entry.
func (c Code) stackCheck(code []byte, addr uint64) (end int) {
	const longest = 12 // instructions, with a margin
	pos := 0
	for range longest {
		if pos >= len(code) {
			break
		}
		in, err := decode(code[pos:])
		if err != nil {
			break
		}
		next := pos + in.Len
		if in.conditional() {
			if target, ok := in.target(uint64(pos)); ok && target < uint64(len(code)) && c.growsStack(code, addr, int(target)) {
				end = next
			} else {
				break
			}
		} else if in.transfers() || in.Op == x86asm.PUSH {
			break
		}
		pos = next
	}
	return end
}

// growsStack reports whether the code at byte pos spills arguments, calls
// morestack and enters the function again.
func (c Code) growsStack(code []byte, addr uint64, pos int) bool {
	const longest = 48 // instructions: spills of all argument registers
	called := false
	for range longest {
		if pos >= len(code) {
			return false
		}
		in, err := decode(code[pos:])
		if err != nil {
			return false
		}
		target, direct := in.target(addr + uint64(pos))
		switch {
		case in.Op == x86asm.CALL:
			if direct && c.GrowsStack(target) {
				return true
			}
			called = true
		case in.Op == x86asm.JMP:
			return called && direct && target == addr
		case in.transfers():
			return false
		}
		pos += in.Len
	}
	return false
}
