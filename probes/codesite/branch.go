package codesite

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// isEntered reports whether a jump within code leads to a byte in [first,
// last], so that the instructions there may be executed more than once. Code
// that cannot be decoded to its end counts as entered if some of its bytes form
// such a jump.
func isEntered(code []byte, first, last int) bool {
	if !mayBeEntered(code, first, last) {
		return false
	}
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			return true
		}
		if target, ok := in.target(uint64(pos)); ok && in.Op != x86asm.CALL && uint64(first) <= target && target <= uint64(last) {
			return true
		}
		pos += in.Len
	}
	return false
}

// mayBeEntered is isEntered without decoding: it matches any bytes that look
// like a relative jump there. It is about twenty times as fast, and seldom
// wrong.
func mayBeEntered(code []byte, first, last int) bool {
	within := func(target int) bool { return first <= target && target <= last }
	for pos, b := range code {
		if b>>4 == 7 || b == 0xeb || b&^3 == 0xe0 { // jcc, jmp, loop and jrcxz: 8 bits
			if pos+1 < len(code) && within(pos+2+int(int8(code[pos+1]))) {
				return true
			}
		}
		if (b == 0xe9 || b>>4 == 8 && pos > 0 && code[pos-1] == 0x0f) && pos+5 <= len(code) {
			rel := int32(uint32(code[pos+1]) | uint32(code[pos+2])<<8 | uint32(code[pos+3])<<16 | uint32(code[pos+4])<<24)
			if within(pos + 5 + int(rel)) {
				return true
			}
		}
	}
	return false
}

// tableEnters reports whether a jump table of the function at addr leads to a
// byte in [first, last]. Compilers emit two forms: 32-bit offsets from the
// table's own address, loaded by a lea, and 64-bit addresses. Every word of a
// possible table counts as an entry as long as it leads into the function. data
// reads what is mapped at an address.
func tableEnters(data reader, code []byte, addr uint64, first, last int) bool {
	if !mayJumpIndirectly(code) || !mayTableEnter(data, code, addr, first, last) {
		return false
	}
	indirect := false
	var tables []uint64
	for pos := 0; pos < len(code) && len(tables) < maxTables; {
		in, err := decode(code[pos:])
		if err != nil {
			break
		}
		pos += in.Len
		for _, arg := range in.Args {
			mem, ok := arg.(x86asm.Mem)
			switch {
			case !ok:
			case mem.Base == x86asm.RIP && in.Op == x86asm.LEA:
				tables = append(tables, addr+uint64(pos)+uint64(mem.Disp))
			case mem.Base == 0 && mem.Index != 0 && mem.Disp > 0:
				tables = append(tables, uint64(mem.Disp))
			}
		}
		if _, direct := in.target(0); in.Op == x86asm.JMP && !direct {
			indirect = true
		}
	}
	return indirect && slices.ContainsFunc(tables, func(table uint64) bool { return leadsTo(data, table, addr, len(code), first, last) })
}

// reader returns up to n bytes that are mapped at addr, nil if there are none.
type reader func(addr, n uint64) []byte

// mayTableEnter is tableEnters without decoding: it matches any bytes that look
// like the operand that addresses a table. It is about twenty times as fast,
// and seldom wrong.
func mayTableEnter(data reader, code []byte, addr uint64, first, last int) bool {
	for pos := 0; pos+6 <= len(code); pos++ {
		table := uint64(int64(int32(binary.LittleEndian.Uint32(code[pos+2:]))))
		switch {
		case code[pos] == 0x8d && code[pos+1]&0xc7 == 5: // lea disp(%rip)
			table += addr + uint64(pos) + 6
		case code[pos]&0xc7 == 4 && code[pos+1]&7 == 5: // ModRM and SIB of disp(,index)
		default:
			continue
		}
		if leadsTo(data, table, addr, len(code), first, last) {
			return true
		}
	}
	return false
}

// mayJumpIndirectly reports whether any bytes look like a jump through a
// register or memory (ff /4). Most functions have none and need no decoding.
func mayJumpIndirectly(code []byte) bool {
	for rest := code; ; {
		i := bytes.IndexByte(rest, 0xff)
		if i < 0 || i+1 >= len(rest) {
			return false
		}
		if rest[i+1]>>3&7 == 4 {
			return true
		}
		rest = rest[i+1:]
	}
}

const (
	maxTables       = 256  // of one function
	maxTableEntries = 1024 // of one table
)

// leadsTo reports whether there is a table from which a jump in the function of
// size bytes at addr may lead to one of its bytes [first, last].
func leadsTo(data reader, table, addr uint64, size, first, last int) bool {
	// Most addresses that a lea loads are no tables, as the first word shows.
	head := data(table, 8)
	if len(head) < 4 || relative(table, head)-addr >= uint64(size) && (len(head) < 8 || binary.LittleEndian.Uint64(head)-addr >= uint64(size)) {
		return false
	}
	words := data(table, maxTableEntries*8)
	for b := words; len(b) >= 4; b = b[4:] {
		at := relative(table, b) - addr
		if at >= uint64(size) {
			break
		}
		if uint64(first) <= at && at <= uint64(last) {
			return true
		}
	}
	for b := words; len(b) >= 8; b = b[8:] {
		at := binary.LittleEndian.Uint64(b) - addr
		if at >= uint64(size) {
			break
		}
		if uint64(first) <= at && at <= uint64(last) {
			return true
		}
	}
	return false
}

// relative returns the target of the first entry of b, in a table of offsets.
func relative(table uint64, b []byte) uint64 {
	return table + uint64(int64(int32(binary.LittleEndian.Uint32(b))))
}
