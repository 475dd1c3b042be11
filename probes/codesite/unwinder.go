package codesite

import "golang.org/x/arch/x86/x86asm"

// Unwinder locates where the unwinder of GCC's run-time library (libgcc_s, used
// by Rust, too) leaves calls: the function by which a personality routine
// resumes a frame at a landing pad.
type Unwinder struct {
	SetIP int // index of _Unwind_SetIP, whose first argument is the frame's context
	// CFA is the offset in a context of the stack pointer with which its frame
	// resumes: the canonical frame address of its callee (_Unwind_GetCFA).
	CFA uint64
}

// Unwinder finds it in a module that has it. The layout of a context is only
// known from the code of _Unwind_GetCFA, which must be one load: other
// unwinders have other code.
func (m Code) Unwinder() (u Unwinder, ok bool) {
	set, get := m.Find("_Unwind_SetIP"), m.Find("_Unwind_GetCFA")
	if len(set) != 1 || len(get) != 1 {
		return u, false
	}
	code, err := m.Image().Code(m.Entries()[get[0]].Addr, m.Extent(get[0]))
	if err != nil {
		return u, false
	}
	first, err := decode(code)
	if err == nil && first.Op == 0 && first.Len == 4 { // endbr64
		code = code[4:]
		first, err = decode(code)
	}
	if err != nil || first.Op != x86asm.MOV || first.Args[0] != x86asm.RAX {
		return u, false
	}
	from, isMem := first.Args[1].(x86asm.Mem)
	next, err := decode(code[first.Len:])
	if !isMem || from.Base != x86asm.RDI || from.Index != 0 || from.Disp < 0 || err != nil || next.Op != x86asm.RET {
		return u, false
	}
	return Unwinder{set[0], uint64(from.Disp)}, true
}
