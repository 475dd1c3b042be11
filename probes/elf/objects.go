package elf

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/ianlancetaylor/demangle"
)

// variable is a variable of a symbol table.
type variable struct {
	Span
	name string
	rank rank
}

// maxVariables bounds the variables that are read of a file.
const maxVariables = 1 << 20

// VariableAt returns the name of the variable that contains an address of the file; false
// if there is none. It reads the symbol tables once.
func (m *Module) VariableAt(addr uint64) (name string, ok bool) {
	m.variablesRead.Do(func() { m.variables = m.readVariables() })
	i, _ := slices.BinarySearchFunc(m.variables, addr+1, func(v variable, addr uint64) int { return cmp.Compare(v.Start, addr) })
	if i--; i < 0 || addr >= max(m.variables[i].End, m.variables[i].Start+1) {
		return "", false
	}
	return demangle.Filter(m.variables[i].name), true
}

// readVariables returns the variables by address, one for each.
func (m *Module) readVariables() (list []variable) {
	defer func() { recover() }() // a damaged file has none
	tables := []*Image{m.image}
	if m.debug != nil {
		if d, err := OpenImage(m.debug); err == nil {
			tables = append(tables, d)
		}
	}
	le := binary.LittleEndian
	for _, table := range tables {
		for _, s := range table.ELF.Sections {
			if (s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_SYMTAB) || int(s.Link) >= len(table.ELF.Sections) {
				continue
			}
			symbols, err := table.ReadSection(s)
			text, err2 := table.ReadSection(table.ELF.Sections[s.Link])
			if err != nil || err2 != nil {
				continue
			}
			names := string(text)
			for ; len(symbols) >= elf.Sym64Size && len(list) < maxVariables; symbols = symbols[elf.Sym64Size:] {
				if elf.ST_TYPE(symbols[4]) != elf.STT_OBJECT || le.Uint16(symbols[6:]) == uint16(elf.SHN_UNDEF) {
					continue
				}
				v := variable{name: WithoutVersion(StringAt(names, le.Uint32(symbols))), rank: rankGlobal}
				v.Start = le.Uint64(symbols[8:])
				v.End = v.Start + le.Uint64(symbols[16:])
				if elf.ST_BIND(symbols[4]) == elf.STB_LOCAL {
					v.rank = rankLocal
				}
				if v.name != "" && v.End >= v.Start {
					list = append(list, v)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b variable) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.rank, b.rank), cmp.Compare(b.End, a.End), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(list, func(a, b variable) bool { return a.Start == b.Start })
}
