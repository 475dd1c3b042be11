package symbols

import (
	"debug/elf"
	"encoding/binary"
)

// imports are the functions of other modules by the addresses of the words
// into which the dynamic linker writes where they are.
func (c *contents) imports() map[uint64]string {
	c.importing.Do(func() {
		const relaBytes = 24
		c.imported = map[uint64]string{}
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
			for ; len(rela) >= relaBytes && len(c.imported) < maxFunctions; rela = rela[relaBytes:] {
				info := binary.LittleEndian.Uint64(rela[8:])
				typ, at := elf.R_X86_64(elf.R_TYPE64(info)), uint64(elf.R_SYM64(info))*elf.Sym64Size
				if (typ == elf.R_X86_64_JMP_SLOT || typ == elf.R_X86_64_GLOB_DAT) && at+elf.Sym64Size <= uint64(len(syms)) {
					c.imported[binary.LittleEndian.Uint64(rela)] = withoutVersion(nameAt(names, binary.LittleEndian.Uint32(syms[at:])))
				}
			}
		}
	})
	return c.imported
}
