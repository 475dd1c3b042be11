package stack

import (
	"encoding/binary"

	"endoscope/probes/unwind"
)

// byReturnAddress unwinds to the caller of a function without an unwind table that has
// no frame, or has not set it up yet: a function that calls nothing needs no frame,
// and any function is without one when it begins. Its return address is then on the
// top of the stack, or just above the saved frame pointer if that has been pushed. The
// frame pointer is the caller's, so following it would skip the caller.
//
// This is only a guess. The address is accepted if it follows a call instruction, and
// if that calls this function, as far as its target is known.
func (u *unwinder) byReturnAddress(regs *[unwind.Registers]uint64, r *region, pc uint64) bool {
	sp := regs[unwind.RegSP]
	top, ok := u.Word(sp)
	if !ok {
		return false
	}
	if top == regs[unwind.RegBP] { // push rbp has been executed, and mov rbp, rsp has not
		sp += 8
		if top, ok = u.Word(sp); !ok {
			return false
		}
	}
	if top == 0 || !u.returnsTo(top, r, pc) {
		return false
	}
	regs[unwind.RegIP], regs[unwind.RegSP] = top, sp+8
	return true
}

// byKnownAddress unwinds to the caller of a function that has no unwind table, but
// whose return address has a known position.
func (u *unwinder) byKnownAddress(regs *[unwind.Registers]uint64, at uint64) bool {
	address, ok := u.Word(at)
	if ok {
		regs[unwind.RegIP], regs[unwind.RegSP] = address, at+8
	}
	return ok
}

// returnsTo reports whether the instruction before an address is a call that may have
// called the function containing pc, in r.
func (u *unwinder) returnsTo(address uint64, r *region, pc uint64) bool {
	if u.region(address-1) == nil {
		return false
	}
	code, ok := u.code(address - 8)
	if !ok {
		return false
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], code)
	if b[3] == 0xe8 { // call rel32
		target := address + uint64(int64(int32(binary.LittleEndian.Uint32(b[4:]))))
		return u.sameFunction(r, target, pc)
	}
	// call r/m64: ff /2 with any addressing, 2 to 7 bytes, with or without a prefix.
	for n := 2; n <= 7; n++ {
		if at := 8 - n; b[at] == 0xff && b[at+1]>>3&7 == 2 && callLength(b[at+1:]) == n {
			return true
		}
	}
	return false
}

// callLength returns the length of an indirect call from the bytes after its opcode:
// the ModR/M byte and the next byte.
func callLength(b []byte) int {
	mod, rm := b[0]>>6, b[0]&7
	n := 2
	if mod != 3 && rm == 4 { // a SIB byte
		n++
		if len(b) > 1 && mod == 0 && b[1]&7 == 5 {
			n += 4
		}
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5:
		n += 4
	}
	return n
}

// sameFunction reports whether a call's target can be the function that contains pc:
// it is that function, or a stub that jumps to it, or one of the two is unknown.
func (u *unwinder) sameFunction(r *region, target, pc uint64) bool {
	to := u.region(target)
	if to == nil {
		return false
	}
	if to.module != r.module || r.module.symbols == nil {
		return true // through a linkage stub of another module
	}
	s := r.module.symbols
	at, ok1 := s.AddrOf(target - to.start + to.offset)
	in, ok2 := s.AddrOf(pc - r.start + r.offset)
	if !ok1 || !ok2 {
		return false
	}
	if s.IsStub(at) {
		return true
	}
	called, ok1 := s.FunctionAt(at)
	executed, ok2 := s.FunctionAt(in)
	return !ok1 || !ok2 || called == executed
}

// code reads 8 bytes of code, which do not change while the thread runs.
func (u *unwinder) code(addr uint64) (uint64, bool) {
	if !u.reach {
		return 0, false
	}
	if addr&4095 <= 4088 {
		return u.outer.word(addr)
	}
	// Across pages.
	low, ok1 := u.outer.word(addr &^ 7)
	high, ok2 := u.outer.word(addr&^7 + 8)
	shift := addr & 7 * 8
	return low>>shift | high<<(64-shift), ok1 && ok2
}
