package elf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"iter"
)

// Go keeps the names of its functions in the pclntab, which stripping does not
// remove (runtime/symtab.go). Its layout is that of Go 1.18 to 1.26.
// debug/gosym is not used: it builds ten times as much and requires the table
// to be well-formed.

const (
	goMagic118 = 0xfffffff0
	goMagic120 = 0xfffffff1

	pcHeaderBytes = 8 + 8*8
	// Offsets in runtime.moduledata, whose first field points to the pclntab.
	moduledataMinPC = 160
	moduledataText  = 176
)

var errPclntab = errors.New("damaged or unknown Go symbol table")

// pclntab returns the section with Go's function table, or nil.
func (im *Image) pclntab() *elf.Section {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := im.ELF.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// readGo reads the functions of the pclntab in sec. textSymbol is the address
// of the symbol runtime.text, 0 if unknown.
func (c *contents) readGo(sec *elf.Section, textSymbol uint64) ([]symbol, error) {
	im := c.image
	data, err := im.ReadSection(sec)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if len(data) < pcHeaderBytes || data[7] != 8 {
		return nil, errPclntab
	}
	if magic := le.Uint32(data); magic != goMagic118 && magic != goMagic120 {
		return nil, errPclntab
	}
	word := func(i int) uint64 { return le.Uint64(data[8+8*i:]) }
	count, namesAt, functionsAt := word(0), word(3), word(7)
	if namesAt > functionsAt || functionsAt > uint64(len(data)) || count > MaxFunctions ||
		(2*count+1)*4 > uint64(len(data))-functionsAt {
		return nil, errPclntab
	}
	names, functions := string(data[namesAt:functionsAt]), data[functionsAt:]
	entry := func(i uint64) uint64 { return uint64(le.Uint32(functions[8*i:])) }

	text := textSymbol
	if text == 0 {
		text = word(2) // before Go 1.26, unless relocated
	}
	if text == 0 && count > 0 {
		text = im.goText(sec.Addr, entry(0))
	}
	im.goBase = text
	table := c.addTable(im, sec, namesAt, functionsAt-namesAt)
	budget := newNameBudget(len(names), int(count))
	syms := make([]symbol, 0, count)
	for i := range count {
		at := uint64(le.Uint32(functions[8*i+4:]))
		if at+8 > uint64(len(functions)) {
			return nil, errPclntab
		}
		s := symbol{addr: text + entry(i), size: entry(i+1) - entry(i), name: StringAt(names, le.Uint32(functions[at+4:])), rank: rankGo}
		s.ref = nameRef{le.Uint32(functions[at+4:]), uint16(len(s.name)), table}
		if isGoMarker(s.name) || s.size > maxCodeBytes || im.SegmentOf(s.addr) == nil || !budget.take(s.name) {
			continue
		}
		syms = append(syms, s)
	}
	return syms, nil
}

// goText finds the base address of pclntab entries in the runtime's moduledata:
// the data that begins with the pclntab's address and has firstEntry + text as
// its minpc. Without it, the base is the start of .text, which is wrong only if
// a C linker has put its start code first.
func (im *Image) goText(pclntab, firstEntry uint64) uint64 {
	le := binary.LittleEndian
	for _, s := range im.ELF.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_WRITE == 0 || s.FileSize < moduledataText+8 {
			continue
		}
		data, err := im.ReadSection(s)
		if err != nil {
			continue
		}
		for at := 0; at+moduledataText+8 <= len(data); at += 8 {
			if le.Uint64(data[at:]) == pclntab {
				if text := le.Uint64(data[at+moduledataText:]); text != 0 && le.Uint64(data[at+moduledataMinPC:]) == text+firstEntry {
					return text
				}
			}
		}
	}
	if text := im.goTextRelocated(pclntab, firstEntry); text != 0 {
		return text
	}
	if s := im.ELF.Section(".text"); s != nil {
		return s.Addr
	}
	return 0
}

// goTextRelocated is goText for position-independent code, where the words of
// the moduledata are in the relocations.
func (im *Image) goTextRelocated(pclntab, firstEntry uint64) uint64 {
	relocations := im.RelativeRelocations()
	starts := map[uint64]bool{}
	for at, value := range relocations {
		if value == pclntab && len(starts) < maxSegments {
			starts[at] = true
		}
	}
	texts, minPCs := map[uint64]uint64{}, map[uint64]uint64{} // by start of a moduledata
	for at, value := range relocations {
		if starts[at-moduledataText] {
			texts[at-moduledataText] = value
		}
		if starts[at-moduledataMinPC] {
			minPCs[at-moduledataMinPC] = value
		}
	}
	for start, text := range texts {
		if minPCs[start] == text+firstEntry {
			return text
		}
	}
	return 0
}

// RelativeRelocations yields the address of each word that the dynamic linker
// fills in with an address of the module, and that address.
func (im *Image) RelativeRelocations() iter.Seq2[uint64, uint64] {
	const size = 24 // Elf64_Rela: offset, info, addend
	le := binary.LittleEndian
	return func(yield func(at, value uint64) bool) {
		for _, s := range im.ELF.Sections {
			if s.Type != elf.SHT_RELA {
				continue
			}
			rela, err := im.ReadSection(s)
			for ; err == nil && len(rela) >= size; rela = rela[size:] {
				relative := elf.R_TYPE64(le.Uint64(rela[8:])) == uint32(elf.R_X86_64_RELATIVE)
				if relative && !yield(le.Uint64(rela), le.Uint64(rela[16:])) {
					return
				}
			}
		}
	}
}

// isGoMarker reports whether a name in a Go symbol table marks a place in the
// text instead of a function.
func isGoMarker(name string) bool {
	switch name {
	case "go:buildid", "go.buildid", "runtime.text", "runtime.etext", "":
		return true
	}
	return false
}
