package symbols

import (
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// CallsAny reports whether the code of function i has a direct call of, or a jump
// to, the entry of a function of such a name, as far as it can be decoded: in the
// module or by a linkage stub. Names are as linkers have them.
func (m *Module) CallsAny(i int, such func(name string) bool) bool {
	f := &m.functions[i]
	code, err := m.image.code(f.addr, m.extent(i))
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
		to := f.addr + uint64(pos) + uint64(int64(rel))
		if to > f.addr && to < f.addr+uint64(len(code)) {
			continue
		}
		if name := m.stubOf(to); name != "" && such(name) {
			return true
		}
		if k, ok := m.FunctionAt(to); ok && m.functions[k].addr == to {
			called := m.Function(k)
			if such(called.Mangled) || slices.ContainsFunc(called.Aliases, such) {
				return true
			}
		}
	}
	return false
}

// TailTarget is the function to which an exit jumps; false if it is no direct jump
// to the entry of a function of the module that has code of its own. A jump through
// the linkage table is to the module's own function of that name, if it has one: that
// another module's may take its place is not seen.
func (m *Module) TailTarget(exit Site) (int, bool) {
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
	return k, ok && m.functions[k].addr == to && !m.image.isStub(to)
}
