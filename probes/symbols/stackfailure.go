package symbols

import (
	"debug/elf"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"
)

// stackFailure is what gcc and clang call when a function's stack protector
// finds the stack overwritten; it ends the process.
const stackFailure = "__stack_chk_fail"

// isStackFailure reports whether a call is that of the function that ends the
// process when it finds its stack broken.
func (m *Module) isStackFailure(n *node, target uint64, direct bool) bool {
	if !direct {
		mem, ok := n.Args[0].(x86asm.Mem)
		return ok && mem.Base == x86asm.RIP && m.isFailureSlot(n.end()+uint64(mem.Disp))
	}
	if i := m.functionAt(target); i >= 0 && m.functions[i].addr == target {
		for _, j := range m.Find(stackFailure) {
			if j == i {
				return true
			}
		}
	}
	code, err := m.image.code(target, 16)
	if err != nil || !m.image.isStub(target) {
		return false
	}
	for at := 0; at < len(code); {
		in, err := decode(code[at:])
		if err != nil {
			return false
		}
		at += in.Len
		if in.Op == x86asm.JMP {
			mem, ok := in.Args[0].(x86asm.Mem)
			return ok && mem.Base == x86asm.RIP && m.isFailureSlot(target+uint64(at)+uint64(mem.Disp))
		}
	}
	return false
}

// isFailureSlot reports whether the dynamic linker writes the address of
// __stack_chk_fail at addr.
func (c *contents) isFailureSlot(addr uint64) bool {
	c.failure.Do(func() {
		const relaBytes = 24
		c.failureSlots = map[uint64]bool{}
		im := c.image
		for _, s := range im.elf.Sections {
			if s.Type != elf.SHT_RELA || int(s.Link) >= len(im.elf.Sections) || im.elf.Sections[s.Link].Type != elf.SHT_DYNSYM {
				continue
			}
			table := im.elf.Sections[s.Link]
			if int(table.Link) >= len(im.elf.Sections) {
				continue
			}
			rela, err := im.read(s)
			syms, err2 := im.read(table)
			text, err3 := im.read(im.elf.Sections[table.Link])
			if err != nil || err2 != nil || err3 != nil {
				continue
			}
			names := string(text)
			for ; len(rela) >= relaBytes; rela = rela[relaBytes:] {
				info := binary.LittleEndian.Uint64(rela[8:])
				typ, at := elf.R_X86_64(elf.R_TYPE64(info)), uint64(elf.R_SYM64(info))*elf.Sym64Size
				if (typ == elf.R_X86_64_JMP_SLOT || typ == elf.R_X86_64_GLOB_DAT) && at+elf.Sym64Size <= uint64(len(syms)) &&
					withoutVersion(nameAt(names, binary.LittleEndian.Uint32(syms[at:]))) == stackFailure {
					c.failureSlots[binary.LittleEndian.Uint64(rela)] = true
				}
			}
		}
	})
	return c.failureSlots[addr]
}
