package codesite

import (
	"cmp"
	stdelf "debug/elf"
	"encoding/binary"
	"slices"
	"sync"

	"endoscope/probes/elf"
)

// callers lists the direct calls and jumps to functions of a module, and the
// places where it takes their addresses.
type callers struct {
	found   sync.Once // guards the other fields
	calls   []call    // by target
	taken   []call    // by target; places where an address is taken
	pointed map[uint64]bool
}

// call is a place in the text that may directly call or jump to a function's
// entry, or take its address. Both fields are offsets from the start of the
// text.
type call struct{ target, source uint32 }

// maxCalledText is the largest text whose calls are listed.
const maxCalledText = 1<<32 - 1

// textStart returns the bounds of the executable segments.
func (c Code) textStart() (start, end uint64) {
	start = ^uint64(0)
	for _, s := range c.Image().Exec {
		start, end = min(start, s.Start), max(end, s.End)
	}
	return start, end
}

// callsOf returns the addresses of possible direct calls of and jumps to the
// function at addr, found by their bytes. pointed reports whether its address
// is taken: by an instruction, or by the dynamic linker, which writes it into
// data.
func (c Code) callsOf(addr uint64) (sources []uint64, pointed bool) {
	c.callers.found.Do(func() {
		c.callers.calls, c.callers.taken = c.findCalls()
		c.callers.pointed = map[uint64]bool{}
		point := func(target uint64) {
			if c.isEntry(target) {
				c.callers.pointed[target] = true
			}
		}
		for _, target := range c.Image().RelativeRelocations() {
			point(target)
		}
		if c.Image().ELF.Type == stdelf.ET_EXEC { // linked at a fixed address
			eachWord(c.Image(), point)
		}
	})
	pointed = c.callers.pointed[addr] || slices.ContainsFunc(c.sourcesOf(c.callers.taken, addr), c.isInstruction)
	return c.sourcesOf(c.callers.calls, addr), pointed
}

// sourcesOf returns the addresses of the places that lead to the function at
// addr.
func (c Code) sourcesOf(all []call, addr uint64) (sources []uint64) {
	start, _ := c.textStart()
	target := uint32(addr - start)
	i, _ := slices.BinarySearchFunc(all, target, func(k call, target uint32) int { return cmp.Compare(k.target, target) })
	for ; i < len(all) && all[i].target == target; i++ {
		sources = append(sources, start+uint64(all[i].source))
	}
	return sources
}

// findCalls scans the executable segments in parallel on all processors.
func (c Code) findCalls() (calls, taken []call) {
	base, end := c.textStart()
	if end < base || end-base > maxCalledText {
		return nil, nil
	}
	starts, fixed := c.starts(), c.Image().ELF.Type == stdelf.ET_EXEC
	c.inParts(func() (scan func(elf.Span), done func()) {
		s := scanner{c: c, starts: starts}
		var called, pointed []call
		scan = func(part elf.Span) {
			code, err := c.Image().Code(part.Start, part.End-part.Start+scanAhead)
			if err != nil {
				return
			}
			for pos := 0; pos < int(part.End-part.Start) && pos+5 <= len(code); pos++ {
				// The end of the instruction holds the offset, or the address.
				list, size, narrow, absolute := &called, 5, false, false
				switch op := code[pos]; {
				case fixed && (op&0xf8 == 0xb8 || op == 0x68): // mov of an address into a register, or push
					list, absolute = &pointed, true
				case fixed && op == 0x41 && code[pos+1]&0xf8 == 0xb8: // into r8 to r15
					list, size, absolute = &pointed, 6, true
				case fixed && op&0xfe == 0x48 && code[pos+1] == 0xc7: // or into memory
					list, size, absolute = &pointed, 3+operandBytes(code[pos+2], code[pos+3])+4, true
				case op == 0xe8 || op == 0xe9:
				case op == 0xeb || op&0xf0 == 0x70:
					size, narrow = 2, true
				case op == 0x0f && code[pos+1]&0xf0 == 0x80:
					size = 6
				case (op == 0x48 || op == 0x4c) && code[pos+1] == 0x8d && code[pos+2]&0xc7 == 0x05: // lea from rip
					list, size = &pointed, 7
				default:
					continue
				}
				if pos+size > len(code) {
					continue
				}
				source, distance := part.Start+uint64(pos), int64(int8(code[pos+size-1]))
				if !narrow {
					distance = int64(int32(binary.LittleEndian.Uint32(code[pos+size-4:])))
				}
				target := source + uint64(size) + uint64(distance)
				if absolute {
					target = uint64(distance)
				}
				if _, entry := s.entry(target); entry {
					*list = append(*list, call{uint32(target - base), uint32(source - base)})
				}
			}
		}
		return scan, func() { calls, taken = append(calls, called...), append(taken, pointed...) }
	})
	for _, list := range []*[]call{&calls, &taken} {
		slices.SortFunc(*list, func(a, b call) int {
			return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.source, b.source))
		})
		*list = slices.Clip(*list)
	}
	return calls, taken
}

// operandBytes returns the number of bytes of an operand after its ModRM byte;
// the first may be the SIB byte.
func operandBytes(modrm, sib byte) (n int) {
	mod, rm := modrm>>6, modrm&7
	if mod != 3 && rm == 4 {
		n++
		rm = sib & 7
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5:
		n += 4
	}
	return n
}

// eachWord calls visit with every possible address in the data of a file.
func eachWord(im *elf.Image, visit func(uint64)) {
	for _, s := range im.ELF.Sections {
		if s.Type != stdelf.SHT_PROGBITS || s.Flags&stdelf.SHF_ALLOC == 0 || s.Flags&stdelf.SHF_EXECINSTR != 0 || s.Name == ".eh_frame" || s.Name == ".eh_frame_hdr" {
			continue
		}
		data, _ := im.ReadSection(s) // none
		for data = data[min(uint64(len(data)), -s.Addr&7):]; len(data) >= 8; data = data[8:] {
			visit(binary.LittleEndian.Uint64(data))
		}
	}
}
