package codesite

import (
	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/dwarf/op"
)

const (
	maxEntrySteps = 4096 // instructions of a function that are examined
	maxEntryDepth = 8    // length of chains of functions that pass the register on
)

// ReadAtEntry reports whether function i reads a register's value at its entry:
// on some path an instruction reads it before it is written, or it is passed to
// a function of the module that does. Only then is a parameter certain to be in
// it. Code that cannot be followed reads nothing.
func (m Code) ReadAtEntry(i int, r op.Register) bool {
	if int(r) < 0 || int(r) >= len(registersOfDWARF) {
		return false
	}
	return m.readAtEntry(i, 1<<registersOfDWARF[r], map[int]bool{})
}

// registersOfDWARF maps DWARF's numbers of general registers to the
// processor's.
var registersOfDWARF = [...]int{regRAX, regRDX, regRCX, regRBX, regRSI, regRDI, regRBP, regRSP, 8, 9, 10, 11, 12, 13, 14, 15}

func (c Code) readAtEntry(i int, register registers, seen map[int]bool) bool {
	if seen[i] || len(seen) >= maxEntryDepth {
		return false
	}
	seen[i] = true
	f := &c.Entries()[i]
	code, err := c.Image().Code(f.Addr, c.Extent(i))
	if err != nil {
		return false
	}
	passed := func(pos int) bool {
		to := c.functionAt(f.Addr + uint64(int64(pos)))
		// A function that reads al is variadic: it stores all registers.
		return to >= 0 && c.Entries()[to].Addr == f.Addr+uint64(int64(pos)) && c.readAtEntry(to, register, seen) && !c.readAtEntry(to, 1<<regRAX, map[int]bool{})
	}
	done := map[int]bool{}
	for todo := []int{0}; len(todo) > 0; {
		pos := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for pos >= 0 && pos < len(code) && !done[pos] && len(done) < maxEntrySteps {
			done[pos] = true
			in, err := decode(code[pos:])
			if err != nil {
				break
			}
			n := node{instruction: in}
			reads, writes, known := in.uses()
			aligns := in.Op == x86asm.PUSH && register == 1<<regRAX // alignment of the stack, no use
			if reads&register != 0 && !aligns {
				return true
			}
			to, direct := in.target(uint64(pos))
			target := int(int64(to))
			if in.Op == x86asm.CALL || n.jumps() && direct && (target < 0 || target >= len(code)) {
				if direct && passed(target) {
					return true
				}
				if in.Op == x86asm.CALL { // the callee may overwrite all argument registers
					break
				}
			} else if n.jumps() && direct {
				todo = append(todo, target)
			}
			if !known || writes&register != 0 || !n.falls() {
				break
			}
			pos += in.Len
		}
	}
	return false
}
