package calls

import (
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/dwarf/signature"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
)

// goroutineOf returns the number of the goroutine that runs a function of Go: the address of
// its g if the place of the number is not known. Assembler has other uses for the register.
func goroutineOf(sym *elf.Module, c selection.Choice) signature.Value {
	x := signature.Value{Type: types.Bigint}
	if c.Lang != elf.Go || sym.Native(c.Index) {
		return x
	}
	n := &codegen.Integer{Register: regR14, NotZero: true, Bits: goroutineBits}
	if at := sym.GoidOffset(); abi.GoidFlag(at) != 0 {
		n.Memory, n.Offset = true, int64(at)
	}
	x.Number = n
	return x
}

// goroutineBits are the bits of a goroutine's number or address that are reported (exit.h).
const goroutineBits = 40
