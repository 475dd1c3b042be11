package elf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Imports returns the functions of other modules, by the address of the word
// into which the dynamic linker writes the function's address.
func (c *contents) Imports() map[uint64]string {
	c.importing.Do(func() {
		const relaBytes = 24
		c.imported = map[uint64]string{}
		im := c.image
		for _, s := range im.ELF.Sections {
			if s.Type != elf.SHT_RELA || int(s.Link) >= len(im.ELF.Sections) || im.ELF.Sections[s.Link].Type != elf.SHT_DYNSYM {
				continue
			}
			table := im.ELF.Sections[s.Link]
			if int(table.Link) >= len(im.ELF.Sections) {
				continue
			}
			rela, err := im.ReadSection(s)
			syms, err2 := im.ReadSection(table)
			text, err3 := im.ReadSection(im.ELF.Sections[table.Link])
			if err != nil || err2 != nil || err3 != nil {
				continue
			}
			names := string(text)
			for ; len(rela) >= relaBytes && len(c.imported) < MaxFunctions; rela = rela[relaBytes:] {
				info := binary.LittleEndian.Uint64(rela[8:])
				typ, at := elf.R_X86_64(elf.R_TYPE64(info)), uint64(elf.R_SYM64(info))*elf.Sym64Size
				if (typ == elf.R_X86_64_JMP_SLOT || typ == elf.R_X86_64_GLOB_DAT) && at+elf.Sym64Size <= uint64(len(syms)) {
					c.imported[binary.LittleEndian.Uint64(rela)] = WithoutVersion(StringAt(names, binary.LittleEndian.Uint32(syms[at:])))
				}
			}
		}
	})
	return c.imported
}

// ImportAt returns the function of another module to which the stub at an address leads; ""
// if there is no stub: an executable uses its address as that of the function.
func (m *Module) ImportAt(addr uint64) string {
	if !m.image.IsStub(addr) {
		return ""
	}
	code, err := m.image.Code(addr, 16)
	if err != nil {
		return ""
	}
	// endbr64, bnd, jmp *disp(%rip)
	jump := bytes.TrimPrefix(bytes.TrimPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}), []byte{0xf2})
	if len(jump) < 6 || jump[0] != 0xff || jump[1] != 0x25 {
		return ""
	}
	end := addr + uint64(len(code)-len(jump)+6)
	return m.Imports()[end+uint64(int64(int32(binary.LittleEndian.Uint32(jump[2:]))))]
}
