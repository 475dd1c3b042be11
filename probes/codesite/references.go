package codesite

import (
	"cmp"
	stdelf "debug/elf"
	"encoding/binary"
	"slices"

	"endoscope/probes/elf"
)

// A reference is a place in the text that leads to a function's entry: the last
// operand of an instruction, an offset from the end of that instruction.
type reference struct {
	target uint64
	at     uint64 // address of the operand
	short  bool   // the operand has 8 bits
}

// end returns the end of an instruction with that operand.
func (r reference) end() uint64 {
	if r.short {
		return r.at + 1
	}
	return r.at + 4
}

// unexported returns the entries that no other file can name, and at which
// neither the program nor the module begins or ends. ok is false where the file
// does not show that.
func (c Code) unexported() (set entrySet, ok bool) {
	im := c.Image()
	if c.HasGo() || !slices.ContainsFunc(im.ELF.Sections, func(s *stdelf.Section) bool { return s.Flags&stdelf.SHF_EXECINSTR != 0 }) {
		return set, false
	}
	if set, ok = c.entrySet(); !ok {
		return set, false
	}
	for i := range c.Entries() {
		if c.IFunc(i) {
			set.remove(c.Entries()[i].Addr)
		}
	}
	set.remove(im.ELF.Entry)
	for _, tag := range []stdelf.DynTag{stdelf.DT_INIT, stdelf.DT_FINI} {
		values, _ := im.ELF.DynValue(tag)
		for _, v := range values {
			set.remove(v)
		}
	}
	for _, s := range im.ELF.Sections {
		if s.Type != stdelf.SHT_DYNSYM {
			continue
		}
		symbols, err := im.ReadSection(s)
		if err != nil {
			return set, false
		}
		for ; len(symbols) >= stdelf.Sym64Size; symbols = symbols[stdelf.Sym64Size:] {
			set.remove(binary.LittleEndian.Uint64(symbols[8:]))
		}
	}
	return set, true
}

// removeReferenced removes from a set the entries whose addresses occur in
// data, so that the others are reached only by what references lists. constants
// are the tables that code refers to. ok is false where the file does not show
// that.
//
// An address is found in any encoding that compilers and linkers emit: absolute
// or relative to the image, in relocations and initialisers, relative to its
// own place or to the start of a table.
func (c Code) removeReferenced(set entrySet) (constants []elf.Block, ok bool) {
	im := c.Image()
	for _, s := range im.ELF.Sections {
		if s.Flags&stdelf.SHF_ALLOC == 0 || s.Type == stdelf.SHT_NOBITS || s.Flags&stdelf.SHF_EXECINSTR != 0 {
			continue
		}
		data, err := im.ReadSection(s)
		if err != nil || s.Type == stdelf.SHT_REL { // not used on this architecture
			return nil, false
		}
		switch {
		case s.Type == stdelf.SHT_RELA:
			set.removeAddends(data)
		case s.Type == stdelf.SHT_DYNSYM, s.Type == stdelf.SHT_STRTAB, s.Name == ".eh_frame", s.Name == ".eh_frame_hdr":
			// The unwind table contains the addresses of all functions, but is
			// not used to reach them.
		default:
			set.removeWords(data, s.Addr, im.ELF.Type == stdelf.ET_EXEC)
			constants = append(constants, elf.Block{Addr: s.Addr, Data: data})
		}
	}
	return constants, true
}

// entrySet is a set of function entries.
type entrySet struct {
	base uint64 // start of the text
	bits bitset
}

// entrySet returns the set of all functions. ok is false for text that is
// scattered more widely than that of any real program.
func (c Code) entrySet() (set entrySet, ok bool) {
	if len(c.Image().Exec) == 0 {
		return set, false
	}
	all := c.Image().Exec[0].Span
	for _, s := range c.Image().Exec {
		all.Start, all.End = min(all.Start, s.Start), max(all.End, s.End)
	}
	if all.End-all.Start > maxBits {
		return set, false
	}
	set = entrySet{all.Start, make(bitset, (all.End-all.Start+63)/64)}
	for i := range c.Entries() {
		at := c.Entries()[i].Addr - set.base
		set.bits[at/64] |= 1 << (at % 64)
	}
	return set, true
}

func (s *entrySet) has(addr uint64) bool {
	at := addr - s.base
	return at/64 < uint64(len(s.bits)) && s.bits[at/64]>>(at%64)&1 != 0
}

func (s *entrySet) remove(addr uint64) {
	if at := addr - s.base; at/64 < uint64(len(s.bits)) {
		s.bits[at/64] &^= 1 << (at % 64)
	}
}

// removeAddends removes the targets of relocations: the address of a function
// that is not exported is an addend.
func (s *entrySet) removeAddends(rela []byte) {
	const size = 24
	for ; len(rela) >= size; rela = rela[size:] {
		s.remove(binary.LittleEndian.Uint64(rela[16:]))
	}
}

// removeWords removes every address that a word of data at addr may encode.
// packed: words need not be aligned.
func (s *entrySet) removeWords(data []byte, addr uint64, packed bool) {
	for at := 0; at+4 <= len(data); at++ {
		if at%4 != 0 && !packed {
			continue
		}
		w := binary.LittleEndian.Uint32(data[at:])
		s.remove(uint64(w)) // also the lower half of 64 bits: the upper half is 0
		s.remove(addr + uint64(at) + uint64(int64(int32(w))))
	}
}

// references returns everything in the text that leads to hidden functions, by
// target; bytes that look like a reference count. Functions whose addresses are
// computed there, other than by adding an offset to the end of the instruction,
// are removed from hidden.
func (c Code) references(hidden entrySet, constants []elf.Block) (found []reference) {
	base := uint64(0) // for addresses that are not relative to the instruction
	if c.Image().ELF.Type == stdelf.ET_DYN {
		if got, _ := c.Image().ELF.DynValue(stdelf.DT_PLTGOT); len(got) > 0 {
			base = got[0]
		}
	}
	var seen []uint64
	c.inParts(func() (scan func(elf.Span), done func()) {
		f := referenceFinder{c: c, hidden: hidden, constants: constants, base: base}
		return f.scan, func() { found, seen = append(found, f.found...), append(seen, f.seen...) }
	})
	for _, addr := range seen {
		hidden.remove(addr)
	}
	slices.SortFunc(found, func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.at, b.at))
	})
	return found
}

// referenceFinder looks for references in parts of the text.
type referenceFinder struct {
	c         Code
	hidden    entrySet
	constants []elf.Block
	base      uint64
	found     []reference
	seen      []uint64 // functions whose address is taken
}

func (f *referenceFinder) scan(part elf.Span) {
	code, err := f.c.Image().Code(part.Start, part.End-part.Start+scanAhead)
	if err != nil {
		return
	}
	n := min(len(code), int(part.End-part.Start))
	var opcode, before byte // the two bytes before an operand
	if front, err := f.c.Image().Code(part.Start-2, 2); err == nil && len(front) == 2 {
		before, opcode = front[0], front[1]
	}
	hidden := f.hidden
	// base + w - hidden.base is the index in the set of a possible address.
	shift, size := f.base-hidden.base, uint64(len(hidden.bits))*64
	for pos := range n {
		b, at := code[pos], part.Start+uint64(pos)
		w, whole := uint64(0), pos+4 <= len(code)
		if whole {
			w = uint64(int64(int32(binary.LittleEndian.Uint32(code[pos:]))))
			if in := shift + w; in < size && hidden.bits[in/64]>>(in%64)&1 != 0 {
				f.seen = append(f.seen, f.base+w)
			}
		}
		switch operandOf[opcode] {
		case noOperand:
		case shortOperand:
			if target := at + 1 + uint64(int64(int8(b))); hidden.has(target) {
				f.found = append(f.found, reference{target, at, true})
			}
		case leaOperand:
			if target := at + 4 + w; whole && before == 0x8d {
				f.table(target)
				if hidden.has(target) {
					f.seen = append(f.seen, target)
				}
			}
		case branchOperand:
			if target := at + 4 + w; whole && hidden.has(target) && isBranch(before, opcode) {
				f.found = append(f.found, reference{target, at, false})
			}
		}
		before, opcode = opcode, b
	}
}

// The kind of operand that may follow a byte, the last of an opcode or a ModRM
// byte.
const (
	noOperand     = iota
	shortOperand  // of a short branch: 8 bits
	branchOperand // 32 bits, if isBranch
	leaOperand    // 32 bits, after the opcode of lea
)

var operandOf = func() (kinds [256]uint8) {
	for b := range kinds {
		switch opcode := byte(b); {
		case isShortBranch(opcode):
			kinds[b] = shortOperand
		case opcode&0xc7 == 5:
			kinds[b] = leaOperand
		case opcode == 0xe8, opcode == 0xe9, opcode == 0xf8, opcode>>4 == 8:
			kinds[b] = branchOperand
		}
	}
	return kinds
}()

// isShortBranch reports whether an opcode is that of a short branch (8 bits).
func isShortBranch(opcode byte) bool {
	return opcode>>4 == 7 || opcode == 0xeb || opcode&^3 == 0xe0
}

// isBranch reports whether the two bytes before an operand of 32 bits may be
// those of a branch.
func isBranch(before, opcode byte) bool {
	switch {
	case opcode == 0xe8, opcode == 0xe9: // call, jmp
		return true
	case opcode>>4 == 8: // jcc
		return before == 0x0f
	}
	return opcode == 0xf8 && before == 0xc7 // xbegin
}

// table records the functions in a table at addr whose entries are offsets from
// its start, if there is one.
func (f *referenceFinder) table(addr uint64) {
	for _, p := range f.constants {
		at := addr - p.Addr
		if at >= uint64(len(p.Data)) {
			continue
		}
		for data := p.Data[at:]; len(data) >= 4; data = data[4:] {
			target := addr + uint64(int64(int32(binary.LittleEndian.Uint32(data))))
			if f.c.Image().SegmentOf(target) == nil {
				return
			}
			if f.hidden.has(target) {
				f.seen = append(f.seen, target)
			}
		}
	}
}
