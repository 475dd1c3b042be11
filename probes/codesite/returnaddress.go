package codesite

import (
	"encoding/binary"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/unwind"
)

// Functions that read their return address, to identify the caller
// (__builtin_return_address) or to change where they return to, find the
// trampoline there while they have a return trap. So does a function that is
// tail-called by one with a trap. They are recognised by their code: a memory
// operand at CFA-8.

// returnAddressReaders caches the answers for functions, by number. Only the
// functions asked for, and those that they tail-call, are analysed.
type returnAddressReaders struct {
	mu    sync.Mutex
	known map[int]bool
}

// readsReturnAddress reports whether function i, or one that it may tail-call,
// reads its return address.
func (m Code) readsReturnAddress(i int) bool {
	seen := map[int]bool{i: true}
	for todo := []int{i}; len(todo) > 0; {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		looks, known := m.returnAddressReaders.get(k)
		if !known {
			var becomes []int
			looks, becomes = m.readsOrTailCalls(k)
			for _, b := range becomes {
				if !seen[b] {
					seen[b] = true
					todo = append(todo, b)
				}
			}
		}
		if looks {
			m.returnAddressReaders.set(map[int]bool{i: true}, true)
			return true
		}
	}
	m.returnAddressReaders.set(seen, false) // no function reachable from them does
	return false
}

func (l *returnAddressReaders) get(i int) (looks, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	looks, known = l.known[i]
	return looks, known
}

func (l *returnAddressReaders) set(which map[int]bool, looks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[int]bool{}
	}
	for i := range which {
		l.known[i] = looks
	}
}

// readsOrTailCalls reports whether function i itself reads its return address,
// and returns the functions that it may tail-call.
func (c Code) readsOrTailCalls(i int) (looks bool, becomes []int) {
	f := &c.Entries()[i]
	if f.Go {
		return false, nil
	}
	for _, name := range c.RawNames(i) {
		if readsItsCaller(name) {
			return true, nil
		}
	}
	code, err := c.Image().Code(f.Addr, c.Extent(i))
	if err != nil {
		return false, nil
	}
	if c.readsOwnReturnAddress(f.Addr, code) {
		return true, nil
	}
	c.tailJumps(f.Addr, code, func(target int, name string) {
		looks = looks || readsItsCaller(name)
		if target >= 0 {
			becomes = append(becomes, target)
		}
	})
	return looks, becomes
}

func readsItsCaller(name string) bool { return returnTroubles[withoutUnderscores(name)] == readsCaller }

// readsOwnReturnAddress examines all operands relative to rsp or rbp, by their
// bytes: ModRM and, for rsp, SIB. Only if one is at the return address is the
// function decoded to check that it is an instruction.
func (c Code) readsOwnReturnAddress(addr uint64, code []byte) bool {
	e := c.UnwindTable().Find(addr)
	if e == nil {
		return false
	}
	var row unwind.Row
	known, until := false, addr
	for pos := 2; pos+1 < len(code); pos++ {
		if !isWide(code[pos-2], code[pos-1]) {
			continue
		}
		base, offset, ok := stackOperand(code[pos:])
		if !ok {
			continue
		}
		if pc := addr + uint64(pos); pc >= until || !e.Contains(pc) {
			if !e.Contains(pc) {
				return false // the rest of the body belongs to another
			}
			row, known = e.Row(pc)
			until = max(row.Until, pc+1)
		}
		switch {
		case known && row.CFAKnown && row.CFAReg == base && row.CFAOffset+row.RA == offset,
			// A realigned frame has a copy of the return address in the usual
			// place.
			known && !row.CFAKnown && base == unwind.RegBP && offset == 8:
			if c.reads(code, pos, base, offset) {
				return true
			}
		}
	}
	return false
}

// isWide reports whether an instruction that ends with these bytes before its
// ModRM byte may load an address from memory, or change one there.
func isWide(before, opcode byte) bool {
	switch opcode {
	case 0xff: // includes push, which has no prefix
		return true
	case 0x01, 0x03, 0x29, 0x2b, 0x31, 0x33, 0x39, 0x3b, 0x81, 0x83, 0x87, 0x89, 0x8b, 0x8d:
		return before&0xf8 == 0x48 // REX.W
	}
	return false
}

// stackOperand decodes a ModRM byte, and what follows it, as memory at a
// constant offset from rsp or rbp.
func stackOperand(b []byte) (base uint64, offset int64, ok bool) {
	mod, rm := b[0]>>6, b[0]&7
	disp := b[1:]
	switch {
	case rm == 4 && mod < 3 && b[1] == 0x24:
		base, disp = unwind.RegSP, b[2:]
	case rm == 5 && (mod == 1 || mod == 2):
		base = unwind.RegBP
	default:
		return 0, 0, false
	}
	switch {
	case mod == 0:
		return base, 0, true
	case mod == 1 && len(disp) >= 1:
		return base, int64(int8(disp[0])), true
	case mod == 2 && len(disp) >= 4:
		return base, int64(int32(binary.LittleEndian.Uint32(disp))), true
	}
	return 0, 0, false
}

// reads reports whether the bytes at pos are the operand of an instruction, an
// offset from a base. Undecodable bytes count as one.
func (c Code) reads(code []byte, pos int, base uint64, offset int64) bool {
	register := map[uint64]x86asm.Reg{unwind.RegSP: x86asm.RSP, unwind.RegBP: x86asm.RBP}[base]
	for at := 0; at <= pos; {
		in, err := decode(code[at:])
		if err != nil {
			return true
		}
		if at+in.Len > pos {
			if imm, ok := in.Args[1].(x86asm.Imm); ok && in.Op == x86asm.OR && imm == 0 {
				return false // a memory barrier
			}
			for _, arg := range in.Args {
				if mem, ok := arg.(x86asm.Mem); ok && mem.Base == register && mem.Index == 0 && mem.Disp == offset {
					return true
				}
			}
			return false
		}
		at += in.Len
	}
	return false
}

// tailJumps calls f for the jumps out of the function at addr: with the number
// of the target function, or with -1 and the name if it is in another module.
// Bytes that only look like a jump count, too.
func (c Code) tailJumps(addr uint64, code []byte, f func(target int, name string)) {
	end := addr + uint64(len(code))
	to := func(target uint64) {
		if addr <= target && target < end {
			return
		}
		if i := c.functionAt(target); i >= 0 && c.Entries()[i].Addr == target {
			f(i, "")
		} else if name := c.stubOf(target); name != "" {
			f(-1, name)
		}
	}
	for pos, b := range code {
		pc := addr + uint64(pos)
		switch {
		case b == 0xeb && pos+2 <= len(code):
			to(pc + 2 + uint64(int64(int8(code[pos+1]))))
		case (b == 0xe9 || b>>4 == 8 && pos > 0 && code[pos-1] == 0x0f) && pos+5 <= len(code):
			to(pc + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos+1:])))))
		case b == 0xff && pos+6 <= len(code) && code[pos+1] == 0x25: // jmp *disp(%rip)
			slot := pc + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos+2:]))))
			if name := c.Imports()[slot]; name != "" {
				f(-1, name)
			}
		}
	}
}
