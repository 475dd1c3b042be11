package symbols

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// callers are the direct calls and jumps to functions of a module, and where it takes
// their addresses.
type callers struct {
	found   sync.Once // guards the others
	calls   []call    // by target
	taken   []call    // likewise
	pointed map[uint64]bool
}

// call is a place in the text that may be a direct call of, or jump to, a function's entry,
// or take its address: distances from where the text begins.
type call struct{ target, source uint32 }

// maxCalledText is how long text may be whose calls are listed.
const maxCalledText = 1<<32 - 1

// textStart is where the first executable segment begins.
func (c *contents) textStart() (start, end uint64) {
	start = ^uint64(0)
	for _, s := range c.image.exec {
		start, end = min(start, s.start), max(end, s.end)
	}
	return start, end
}

// callsOf are the addresses of what may be direct calls of the function at addr and jumps
// to it, found by their bytes; and whether its address is taken: by an instruction, or by the
// dynamic linker, which puts it into data.
func (c *contents) callsOf(addr uint64) (sources []uint64, pointed bool) {
	c.callers.found.Do(func() {
		c.callers.calls, c.callers.taken = c.findCalls()
		c.callers.pointed = map[uint64]bool{}
		for _, target := range c.image.relativeRelocations() {
			if c.isEntry(target) {
				c.callers.pointed[target] = true
			}
		}
	})
	pointed = c.callers.pointed[addr] || slices.ContainsFunc(c.sourcesOf(c.callers.taken, addr), c.isInstruction)
	return c.sourcesOf(c.callers.calls, addr), pointed
}

// sourcesOf are the addresses of the places that lead to the function at addr.
func (c *contents) sourcesOf(all []call, addr uint64) (sources []uint64) {
	start, _ := c.textStart()
	target := uint32(addr - start)
	i, _ := slices.BinarySearchFunc(all, target, func(k call, target uint32) int { return cmp.Compare(k.target, target) })
	for ; i < len(all) && all[i].target == target; i++ {
		sources = append(sources, start+uint64(all[i].source))
	}
	return sources
}

// findCalls scans the executable segments with all processors.
func (c *contents) findCalls() (calls, taken []call) {
	base, end := c.textStart()
	if end < base || end-base > maxCalledText {
		return nil, nil
	}
	starts := c.starts()
	c.inParts(func() (scan func(span), done func()) {
		s := scanner{c: c, starts: starts}
		var called, pointed []call
		scan = func(part span) {
			code, err := c.image.code(part.start, part.end-part.start+scanAhead)
			if err != nil {
				return
			}
			for pos := 0; pos < int(part.end-part.start) && pos+5 <= len(code); pos++ {
				list, size, narrow := &called, 5, false // of the instruction, whose end has the distance
				switch op := code[pos]; {
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
				source, distance := part.start+uint64(pos), int64(int8(code[pos+size-1]))
				if !narrow {
					distance = int64(int32(binary.LittleEndian.Uint32(code[pos+size-4:])))
				}
				target := source + uint64(size) + uint64(distance)
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
