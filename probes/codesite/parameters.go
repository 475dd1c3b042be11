package codesite

import (
	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/dwarf/op"
)

const (
	maxEntrySteps = 4096 // instructions of a function that are looked at
	maxEntryDepth = 8    // of functions that are passed what another one was
)

// ReadAtEntry reports whether function i reads what a register has at its entry: on some
// path an instruction does before anything is written there, or a function of the module
// is called with it that does. Only then a parameter can be in it for certain. Code that
// cannot be followed reads nothing.
func (m Code) ReadAtEntry(i int, r op.Register) bool {
	if int(r) < 0 || int(r) >= len(registersOfDWARF) {
		return false
	}
	return m.readAtEntry(i, 1<<registersOfDWARF[r], map[int]bool{})
}

// registersOfDWARF are the processor's numbers of general registers by DWARF's.
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
		// A function that looks at al takes any number of arguments: it stores all registers.
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
			aligns := in.Op == x86asm.PUSH && register == 1<<regRAX // the stack
			if reads&register != 0 && !aligns {
				return true
			}
			to, direct := in.target(uint64(pos))
			target := int(int64(to))
			if in.Op == x86asm.CALL || n.jumps() && direct && (target < 0 || target >= len(code)) {
				if direct && passed(target) {
					return true
				}
				if in.Op == x86asm.CALL { // which may write to all that arguments are in
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
