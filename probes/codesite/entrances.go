package codesite

import (
	"cmp"
	stdelf "debug/elf"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/elf"
)

// An entrance is a way into code other than a function's entry: a branch out of
// another function or fragment, a label whose address is taken (computed gotos,
// hand-written tables), or a symbol that is no function. Branches within a
// function are many, and are looked for in its own code.
type entrance struct {
	target uint64
	source uint64 // address of the instruction; 0 for data and symbols
}

// entrances returns those of the whole module by 32-bit displacements and by
// data, sorted by target. They are found by their bytes, wherever an
// instruction might begin, so that none is missed in code that is unknown, in a
// gap or hard to decode. A caller that finds one in the way checks it with
// isInstruction.
func (c Code) entrances() []entrance {
	c.entrancesOnce.Do(func() {
		found := append(c.entrancesOfText(), c.entrancesOfData()...)
		slices.SortFunc(found, func(a, b entrance) int {
			return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.source, b.source))
		})
		c.entranceList = slices.Clip(slices.Compact(found))
	})
	return c.entranceList
}

// entrancesInto returns those whose target is in s.
func (c Code) entrancesInto(s elf.Span) []entrance {
	all := c.entrances()
	at := func(addr uint64) int {
		i, _ := slices.BinarySearchFunc(all, addr, func(e entrance, addr uint64) int { return cmp.Compare(e.target, addr) })
		return i
	}
	i := at(s.Start)
	return all[i:max(i, at(s.End))]
}

// entersFromOutside reports whether anything but function i's own code enters a
// byte in s, a part of it without its entry.
func (c Code) entersFromOutside(i int, s elf.Span) bool {
	if i+1 < len(c.Entries()) && s.Contains(c.Entries()[i+1].Addr) {
		return true
	}
	if e := c.UnwindTable().Next(s.Start); e != nil && s.Contains(e.Start) {
		return true
	}
	own := elf.Span{Start: c.Entries()[i].Addr, End: c.Entries()[i].Addr + c.Extent(i)}
	for _, e := range c.entrancesInto(s) {
		if e.source == 0 || c.isInstruction(e.source) {
			return true
		}
	}
	return len(c.shortBranchesInto(s, own)) > 0
}

// shortBranchesInto returns the places outside of own, the surroundings of s,
// with branches of 8 bits into s.
func (c Code) shortBranchesInto(s, own elf.Span) (sources []uint64) {
	const reach = 0x80 + 2
	for _, around := range []elf.Span{
		{Start: max(own.Start, reach) - reach, End: own.Start},
		{Start: own.End, End: min(own.End, ^uint64(0)-reach) + reach},
	} {
		if around.End+reach < s.Start || s.End+reach < around.Start {
			continue
		}
		// The segment may begin or end within the reach of a short branch.
		if seg := c.Image().SegmentOf(own.Start); seg != nil {
			around.Start, around.End = max(around.Start, seg.Start), min(around.End, seg.End)
		}
		if around.Start >= around.End {
			continue
		}
		code, err := c.Image().Code(around.Start, around.End-around.Start)
		if err != nil {
			continue
		}
		for pos := 0; pos+1 < len(code); pos++ {
			if b := code[pos]; b>>4 == 7 || b == 0xeb || b&^3 == 0xe0 {
				source := around.Start + uint64(pos)
				if s.Contains(source+2+uint64(int64(int8(code[pos+1])))) && c.isInstruction(source) {
					sources = append(sources, source)
				}
			}
		}
	}
	return sources
}

// fragmentEnters reports whether a fragment to which the function at addr
// branches, such as its cold path, branches back to the function's entry.
func (c Code) fragmentEnters(code []byte, addr uint64) bool {
	for _, way := range c.entrancesInto(elf.Span{Start: addr, End: addr + 1}) {
		fragment := c.UnwindTable().Find(way.source)
		if way.source == 0 || fragment == nil || c.functionAt(way.source) >= 0 || !c.isInstruction(way.source) {
			continue
		}
		for pos := 0; pos < len(code); {
			in, err := decode(code[pos:])
			if err != nil {
				return true
			}
			if target, ok := in.target(addr + uint64(pos)); ok && fragment.Contains(target) {
				return true
			}
			pos += in.Len
		}
	}
	return false
}

// functionAt returns the index of the function that contains addr, or -1.
func (c Code) functionAt(addr uint64) int {
	i, found := slices.BinarySearchFunc(c.Entries(), addr, func(f elf.Entry, addr uint64) int { return cmp.Compare(f.Addr, addr) })
	if !found {
		i--
	}
	if i < 0 || addr-c.Entries()[i].Addr >= c.Extent(i) {
		return -1
	}
	return i
}

// home returns the function or fragment that contains addr; empty if none does.
func (c Code) home(addr uint64) (s elf.Span, isFunction bool) {
	if i := c.functionAt(addr); i >= 0 {
		return elf.Span{Start: c.Entries()[i].Addr, End: c.Entries()[i].Addr + c.Extent(i)}, true
	}
	if e := c.UnwindTable().Find(addr); e != nil {
		return elf.Span{Start: e.Start, End: e.End}, false
	}
	return elf.Span{Start: addr, End: addr}, false
}

// isInstruction reports whether an instruction begins at addr, as far as its
// function or fragment can be decoded from the start; true if in doubt.
func (c Code) isInstruction(addr uint64) bool {
	home, _ := c.home(addr)
	if addr-home.Start > maxBodyBytes {
		return true
	}
	code, err := c.Image().Code(home.Start, min(home.End, addr+16)-home.Start)
	if err != nil {
		return true
	}
	for at := home.Start; at < addr; {
		in, err := decode(code[min(at-home.Start, uint64(len(code))):])
		if err != nil {
			return true
		}
		if at += uint64(in.Len); at > addr {
			return false
		}
	}
	return true
}

// What the first byte of an instruction may mean for the scan.
const (
	scanNothing = iota
	scanCall    // e8 rel32
	scanJump    // e9 rel32
	scanTwoByte // 0f 8x rel32
	scanLEA     // 8d, RIP-relative
	scanAddress // b8-bf, c7: a 32-bit address, in position-dependent code
)

const (
	scanPart  = 1 << 20
	scanAhead = 10 // the most bytes read after the end of a part
)

// entrancesOfText scans the executable segments in parallel on all processors.
func (c Code) entrancesOfText() (found []entrance) {
	var kinds [256]uint8
	kinds[0xe8], kinds[0xe9], kinds[0x0f], kinds[0x8d] = scanCall, scanJump, scanTwoByte, scanLEA
	if c.Image().ELF.Type == stdelf.ET_EXEC {
		for b := 0xb8; b <= 0xbf; b++ {
			kinds[b] = scanAddress
		}
		kinds[0xc7] = scanAddress
	}
	starts := c.starts()
	c.inParts(func() (scan func(elf.Span), done func()) {
		s := scanner{c: c, kinds: &kinds, starts: starts}
		return s.scan, func() { found = append(found, s.found...) }
	})
	return found
}

// inParts scans the executable segments in parts, with one worker per
// processor. done is called when no part is left, by one worker at a time.
func (c Code) inParts(worker func() (scan func(elf.Span), done func())) {
	var parts []elf.Span
	for _, s := range c.Image().Exec {
		for at := uint64(0); at < s.End-s.Start; at += scanPart {
			parts = append(parts, elf.Span{Start: s.Start + at, End: s.Start + min(s.End-s.Start, at+scanPart)})
		}
	}
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		all.Go(func() {
			scan, done := worker()
			for n := next.Add(1) - 1; int(n) < len(parts); n = next.Add(1) - 1 {
				scan(parts[n])
			}
			mu.Lock()
			defer mu.Unlock()
			done()
		})
	}
	all.Wait()
}

// scanner looks for entrances in parts of the text.
type scanner struct {
	c          Code
	kinds      *[256]uint8
	starts     []bitset
	home       elf.Span // span of the last branch
	isFunction bool
	found      []entrance
}

func (s *scanner) scan(part elf.Span) {
	code, err := s.c.Image().Code(part.Start, part.End-part.Start+scanAhead)
	if err != nil {
		return
	}
	n := min(len(code), int(part.End-part.Start))
	rel := func(pos int) (uint64, bool) {
		if pos+4 > len(code) {
			return 0, false
		}
		return part.Start + uint64(pos) + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos:])))), true
	}
	for pos := 0; pos < n; pos++ {
		kind := s.kinds[code[pos]]
		if kind == scanNothing || pos+6 > len(code) {
			continue
		}
		source := part.Start + uint64(pos)
		switch kind {
		case scanCall:
			if target, ok := rel(pos + 1); ok {
				s.address(source, target)
			}
		case scanJump:
			if target, ok := rel(pos + 1); ok {
				s.jump(source, target)
			}
		case scanTwoByte:
			if code[pos+1]>>4 == 8 {
				if target, ok := rel(pos + 2); ok {
					s.jump(source, target)
				}
			}
		case scanLEA:
			if code[pos+1]&0xc7 == 5 {
				if target, ok := rel(pos + 2); ok {
					if pos > 0 && code[pos-1]>>4 == 4 {
						source-- // REX
					}
					s.address(source, target)
				}
			}
		case scanAddress:
			at := pos + 1
			if code[pos] == 0xc7 { // mov r/m64, imm32 with a register
				if code[pos+1]>>6 != 3 {
					continue
				}
				at++
			}
			if at+4 <= len(code) {
				s.address(0, uint64(binary.LittleEndian.Uint32(code[at:])))
			}
		}
	}
}

// bitset has a bit for each byte of a piece of code, or for each function.
type bitset []uint64

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }

// maxBits limits a bitset; code beyond that, larger than any real program, is
// searched for entries instead.
const maxBits = 512 << 20

// starts returns the entries of functions in each executable segment. A binary
// search of the functions for each target would take most of the time of the
// scan.
func (c Code) starts() (sets []bitset) {
	for _, seg := range c.Image().Exec {
		set := make(bitset, min(seg.End-seg.Start, maxBits)/64+1)
		for i := range c.Entries() {
			if at := c.Entries()[i].Addr - seg.Start; at/64 < uint64(len(set)) {
				set[at/64] |= 1 << (at % 64)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// entry reports whether addr is code, and whether a function begins there.
func (s *scanner) entry(addr uint64) (code, entry bool) {
	for i := range s.c.Image().Exec {
		if seg := &s.c.Image().Exec[i]; seg.Contains(addr) {
			at := addr - seg.Start
			if at/64 >= uint64(len(s.starts[i])) {
				return true, s.c.isEntry(addr)
			}
			return true, s.starts[i][at/64]>>(at%64)&1 != 0
		}
	}
	return false, false
}

// address adds a call, or an address taken, unless it is that of a function.
func (s *scanner) address(source, target uint64) {
	if code, entry := s.entry(target); !code || entry || s.c.Image().IsStub(target) {
		return
	}
	s.found = append(s.found, entrance{target, source})
}

// jump adds a jump that leaves its function or fragment, unless it is a tail
// call.
func (s *scanner) jump(source, target uint64) {
	code, entry := s.entry(target)
	if !code || s.c.Image().IsStub(target) {
		return
	}
	if !s.home.Contains(source) {
		s.home, s.isFunction = s.c.home(source)
	}
	if s.home.Contains(target) || s.isFunction && entry {
		return
	}
	s.found = append(s.found, entrance{target, source})
}

// isEntry reports whether a function begins at addr.
func (c Code) isEntry(addr uint64) bool {
	_, found := slices.BinarySearchFunc(c.Entries(), addr, func(f elf.Entry, addr uint64) int { return cmp.Compare(f.Addr, addr) })
	return found
}

// entrancesOfData returns the places within functions to which words of data,
// or symbols without a type, point. In position-independent code such words are
// only where the dynamic linker may write.
func (c Code) entrancesOfData() (found []entrance) {
	add := func(target uint64) {
		if len(found) < elf.MaxFunctions && c.Image().SegmentOf(target) != nil && !c.isEntry(target) && !c.Image().IsStub(target) {
			found = append(found, entrance{target: target})
		}
	}
	for _, target := range c.Image().RelativeRelocations() {
		add(target)
	}
	for _, s := range c.Image().ELF.Sections {
		if s.Flags&stdelf.SHF_ALLOC == 0 || s.Flags&stdelf.SHF_EXECINSTR != 0 || s.Type == stdelf.SHT_NOBITS ||
			s.Type == stdelf.SHT_RELA || s.Type == stdelf.SHT_DYNSYM ||
			s.Flags&stdelf.SHF_WRITE == 0 && c.Image().ELF.Type != stdelf.ET_EXEC {
			continue
		}
		size := min(s.FileSize, uint64(c.Image().Size))
		for at := uint64(0); at < size; at += scanPart {
			data := c.Image().Data(s.Addr+at, min(scanPart, size-at))
			for ; len(data) >= 8; data = data[8:] {
				add(binary.LittleEndian.Uint64(data))
			}
		}
	}
	for _, label := range labels(c.Image()) {
		add(label)
	}
	return found
}

// labels returns the addresses of code symbols without a type, which assembler
// defines.
func labels(im *elf.Image) (addrs []uint64) {
	for _, s := range im.ELF.Sections {
		if s.Type != stdelf.SHT_SYMTAB && s.Type != stdelf.SHT_DYNSYM {
			continue
		}
		data, err := im.ReadSection(s)
		for ; err == nil && len(data) >= stdelf.Sym64Size; data = data[stdelf.Sym64Size:] {
			addr := binary.LittleEndian.Uint64(data[8:])
			if stdelf.ST_TYPE(data[4]) == stdelf.STT_NOTYPE && binary.LittleEndian.Uint16(data[6:]) != 0 && im.SegmentOf(addr) != nil {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs
}

// jumps reports whether the instruction is a branch, conditional or not.
func (in instruction) jumps() bool { return in.Op == x86asm.JMP || in.conditional() }
