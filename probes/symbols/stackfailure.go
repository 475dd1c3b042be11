package symbols

import "golang.org/x/arch/x86/x86asm"

// stackFailure is what gcc and clang call when a function's stack protector
// finds the stack overwritten; it ends the process.
const stackFailure = "__stack_chk_fail"

// isStackFailure reports whether a call is that of the function that ends the
// process when it finds its stack broken.
func (m *Module) isStackFailure(n *node, target uint64, direct bool) bool {
	if !direct {
		mem, ok := n.Args[0].(x86asm.Mem)
		return ok && mem.Base == x86asm.RIP && m.imports()[n.end()+uint64(mem.Disp)] == stackFailure
	}
	if i := m.functionAt(target); i >= 0 && m.functions[i].addr == target {
		for _, j := range m.Find(stackFailure) {
			if j == i {
				return true
			}
		}
	}
	return m.stubOf(target) == stackFailure
}
