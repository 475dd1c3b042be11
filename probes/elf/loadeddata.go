package elf

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"sync"
)

// loadedData is the data of a file after the dynamic linker has filled in the
// pointers; addresses are those in the file.
type loadedData struct {
	im       *Image
	pointers []relocation // by address
	symbols  []byte       // .dynsym, to which pointers refer
	names    string       // and its names

	reading  sync.Once // guards sections
	sections []Block
}

// relocation is a word filled in by the dynamic linker.
type relocation struct {
	at     uint64
	value  uint64 // an address in the file; for an import the addend
	symbol uint32 // number of the symbol that it refers to; 0: none
}

// word is the content of an address.
type word struct {
	value    uint64
	symbol   string // that it was filled in from; "": none
	imported bool   // the symbol is another module's, and value an offset from it
}

// readLoadedData reads the relocations of a file. RELR relocations are applied
// in place, where all other words are, too.
func readLoadedData(im *Image) *loadedData {
	const size = 24 // Elf64_Rela: offset, info, addend
	le := binary.LittleEndian
	d := &loadedData{im: im}
	d.readSymbols()
	for _, s := range im.ELF.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		rela, err := im.ReadSection(s)
		for ; err == nil && len(rela) >= size && len(d.pointers) < MaxFunctions; rela = rela[size:] {
			p := relocation{at: le.Uint64(rela), value: le.Uint64(rela[16:])}
			switch info := le.Uint64(rela[8:]); elf.R_X86_64(elf.R_TYPE64(info)) {
			case elf.R_X86_64_RELATIVE:
			case elf.R_X86_64_64:
				p.symbol = elf.R_SYM64(info)
				if addr, section, ok := d.symbol(p.symbol); ok && section != elf.SHN_UNDEF {
					p.value += addr
				}
			default:
				continue
			}
			d.pointers = append(d.pointers, p)
		}
	}
	slices.SortFunc(d.pointers, func(a, b relocation) int { return cmp.Compare(a.at, b.at) })
	return d
}

func (d *loadedData) readSymbols() {
	for _, s := range d.im.ELF.Sections {
		if s.Type != elf.SHT_DYNSYM || int(s.Link) >= len(d.im.ELF.Sections) {
			continue
		}
		symbols, err := d.im.ReadSection(s)
		names, err2 := d.im.ReadSection(d.im.ELF.Sections[s.Link])
		if err == nil && err2 == nil {
			d.symbols, d.names = symbols, string(names)
		}
		return
	}
}

// symbol returns the address of dynamic symbol i.
func (d *loadedData) symbol(i uint32) (addr uint64, section elf.SectionIndex, ok bool) {
	at := uint64(i) * elf.Sym64Size
	if at+elf.Sym64Size > uint64(len(d.symbols)) {
		return 0, elf.SHN_UNDEF, false
	}
	s := d.symbols[at:]
	return binary.LittleEndian.Uint64(s[8:]), elf.SectionIndex(binary.LittleEndian.Uint16(s[6:])), true
}

// word reads the word at an address; 0 if the file has no data there.
func (d *loadedData) word(at uint64) word {
	if i, ok := slices.BinarySearchFunc(d.pointers, at, func(p relocation, at uint64) int { return cmp.Compare(p.at, at) }); ok {
		return d.filledIn(d.pointers[i])
	}
	if b := d.im.Data(at, 8); len(b) == 8 {
		return word{value: binary.LittleEndian.Uint64(b)}
	}
	return word{}
}

func (d *loadedData) filledIn(p relocation) word {
	w := word{value: p.value}
	if p.symbol == 0 {
		return w
	}
	_, section, ok := d.symbol(p.symbol)
	if !ok {
		return word{}
	}
	w.symbol = WithoutVersion(StringAt(d.names, binary.LittleEndian.Uint32(d.symbols[uint64(p.symbol)*elf.Sym64Size:])))
	w.imported = section == elf.SHN_UNDEF
	return w
}

// text returns the string at an address, "" if there is none or it is too long
// to be a name.
func (d *loadedData) text(at uint64) string {
	return StringAt(string(d.im.Data(at, maxName+1)), 0)
}

// wordsWith returns the addresses of aligned words that contain one of the
// values, an address in the file.
func (d *loadedData) wordsWith(values map[uint64]bool) (found []uint64) {
	for _, p := range d.pointers {
		if _, section, _ := d.symbol(p.symbol); values[p.value] && (p.symbol == 0 || section != elf.SHN_UNDEF) {
			found = append(found, p.at)
		}
	}
	for _, s := range d.constants() {
		for at := -s.Addr & 7; at+8 <= uint64(len(s.Data)); at += 8 {
			if values[binary.LittleEndian.Uint64(s.Data[at:])] {
				found = append(found, s.Addr+at)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// constants returns the sections that contain no code and are initialised
// before the program runs.
func (d *loadedData) constants() []Block {
	d.reading.Do(func() {
		for _, s := range d.im.ELF.Sections {
			if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || s.Name == ".eh_frame" {
				continue
			}
			if data, err := d.im.ReadSection(s); err == nil {
				d.sections = append(d.sections, Block{s.Addr, data})
			}
		}
	})
	return d.sections
}
