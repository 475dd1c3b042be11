package codesite

import (
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// CallsAny reports whether the code of function i, as far as it can be decoded,
// directly calls or jumps to the entry of a function whose name satisfies such:
// in the module or through a linkage stub. Names are mangled.
func (m Code) CallsAny(i int, such func(name string) bool) bool {
	f := &m.Entries()[i]
	code, err := m.Image().Code(f.Addr, m.Extent(i))
	if err != nil {
		return false
	}
	for pos := 0; pos < len(code); {
		in, err := decode(code[pos:])
		if err != nil {
			return false
		}
		pos += in.Len
		rel, ok := in.Args[0].(x86asm.Rel)
		if !ok {
			continue
		}
		to := f.Addr + uint64(pos) + uint64(int64(rel))
		if to > f.Addr && to < f.Addr+uint64(len(code)) {
			continue
		}
		if m.isNamed(to, such) {
			return true
		}
	}
	return false
}

// isNamed reports whether a function whose name satisfies such begins at addr,
// or a linkage stub of one.
func (m Code) isNamed(addr uint64, such func(name string) bool) bool {
	if name := m.stubOf(addr); name != "" && such(name) {
		return true
	}
	k, ok := m.FunctionAt(addr)
	if !ok || m.Entries()[k].Addr != addr {
		return false
	}
	f := m.Function(k)
	return such(f.Mangled) || slices.ContainsFunc(f.Aliases, such)
}

// MayAvoid reports whether a call of function i may return, or continue as
// another function, without a direct call of or jump to a function whose name
// satisfies such. If the code cannot be followed, it is the negation of
// [Module.CallsAny].
func (m Code) MayAvoid(i int, such func(name string) bool) bool {
	b, err := m.body(i)
	if err != nil {
		return !m.CallsAny(i, such)
	}
	seen := map[uint64]bool{}
	for todo := []uint64{m.Entries()[i].Addr}; len(todo) > 0; {
		addr := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := b.at(addr)
		if seen[addr] {
			continue
		}
		if seen[addr] = true; n == nil || n.addr != addr {
			continue // code after a call that does not return
		}
		if n.Op == x86asm.RET {
			return true
		}
		to, direct := n.target(addr)
		if n.transfers() && direct {
			switch {
			case m.isNamed(to, such):
				if n.conditional() {
					todo = append(todo, n.end())
				}
				continue
			case n.Op == x86asm.CALL:
				if m.isNamed(to, doesNotReturn) {
					continue
				}
			case !b.contains(to):
				return true
			default:
				todo = append(todo, to)
			}
		} else if n.Op == x86asm.JMP {
			return true // an unknown target
		}
		if n.falls() {
			todo = append(todo, n.end())
		}
	}
	return false
}

// doesNotReturn reports whether a function is known by its name not to return.
func doesNotReturn(name string) bool {
	switch name {
	case "abort", "_Unwind_Resume", "__cxa_throw", "__cxa_rethrow", "__clang_call_terminate", "_ZSt9terminatev", "_ZSt17__throw_bad_allocv", "__stack_chk_fail":
		return true
	}
	return false
}

// LeavesTo reports whether an exit is a direct jump to a function whose name
// satisfies such.
func (m Code) LeavesTo(exit Site, such func(name string) bool) bool {
	in, err := decode(exit.Bytes)
	if err != nil || !in.jumps() {
		return false
	}
	to, direct := in.target(exit.Addr)
	return direct && m.isNamed(to, such)
}

// TailTarget returns the function to which an exit jumps; false if it is no
// direct jump to the entry of a function of the module with code of its own. A
// jump through the linkage table counts as one to the module's own function of
// that name, if there is one; interposition by another module is not seen.
func (m Code) TailTarget(exit Site) (int, bool) {
	in, err := decode(exit.Bytes)
	if err != nil || in.Op != x86asm.JMP {
		return 0, false
	}
	rel, ok := in.Args[0].(x86asm.Rel)
	if !ok {
		return 0, false
	}
	to := exit.Addr + uint64(in.Len) + uint64(int64(rel))
	if name := m.stubOf(to); name != "" {
		found := m.Find(name)
		if len(found) != 1 {
			return 0, false
		}
		return found[0], true
	}
	k, ok := m.FunctionAt(to)
	return k, ok && m.Entries()[k].Addr == to && !m.Image().IsStub(to)
}

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
