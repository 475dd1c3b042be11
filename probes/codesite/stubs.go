package codesite

import "golang.org/x/arch/x86/x86asm"

// stackFailure is the function that gcc's and clang's stack protector calls
// when the stack was overwritten; it ends the process.
const stackFailure = "__stack_chk_fail"

// isStackFailure reports whether a call is one of stackFailure.
func (m Code) isStackFailure(n *node, target uint64, direct bool) bool {
	if !direct {
		mem, ok := n.Args[0].(x86asm.Mem)
		return ok && mem.Base == x86asm.RIP && m.Imports()[n.end()+uint64(mem.Disp)] == stackFailure
	}
	if i := m.functionAt(target); i >= 0 && m.Entries()[i].Addr == target {
		for _, j := range m.Find(stackFailure) {
			if j == i {
				return true
			}
		}
	}
	return m.stubOf(target) == stackFailure
}

// stubOf returns the name of the function to which the linkage stub at addr
// leads, "" if it is no stub.
func (c Code) stubOf(addr uint64) string {
	if !c.Image().IsStub(addr) {
		return ""
	}
	code, err := c.Image().Code(addr, 16)
	if err != nil {
		return ""
	}
	for at := 0; at < len(code); {
		in, err := decode(code[at:])
		if err != nil {
			return ""
		}
		at += in.Len
		if in.Op == x86asm.JMP {
			if mem, ok := in.Args[0].(x86asm.Mem); ok && mem.Base == x86asm.RIP {
				return c.Imports()[addr+uint64(at)+uint64(mem.Disp)]
			}
			return ""
		}
	}
	return ""
}
