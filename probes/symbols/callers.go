package symbols

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// callers are the direct calls and jumps to functions of a module.
type callers struct {
	found   sync.Once // guards the others
	calls   []call    // by target
	pointed map[uint64]bool
}

// call is a place in the text that may be a direct call of, or jump to, a function's entry:
// distances from where the text begins.
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
// to it, found by their bytes; and whether the dynamic linker puts its address into data.
func (c *contents) callsOf(addr uint64) (sources []uint64, pointed bool) {
	c.callers.found.Do(func() {
		c.callers.calls = c.findCalls()
		c.callers.pointed = map[uint64]bool{}
		for _, target := range c.image.relativeRelocations() {
			if c.isEntry(target) {
				c.callers.pointed[target] = true
			}
		}
	})
	start, _ := c.textStart()
	target := uint32(addr - start)
	all := c.callers.calls
	i, _ := slices.BinarySearchFunc(all, target, func(k call, target uint32) int { return cmp.Compare(k.target, target) })
	for ; i < len(all) && all[i].target == target; i++ {
		sources = append(sources, start+uint64(all[i].source))
	}
	return sources, c.callers.pointed[addr]
}

// findCalls scans the executable segments with all processors.
func (c *contents) findCalls() (found []call) {
	base, end := c.textStart()
	if end < base || end-base > maxCalledText {
		return nil
	}
	starts := c.starts()
	c.inParts(func() (scan func(span), done func()) {
		s := scanner{c: c, starts: starts}
		var mine []call
		scan = func(part span) {
			code, err := c.image.code(part.start, part.end-part.start+scanAhead)
			if err != nil {
				return
			}
			for pos := 0; pos < int(part.end-part.start) && pos+5 <= len(code); pos++ {
				if code[pos] != 0xe8 && code[pos] != 0xe9 {
					continue
				}
				source := part.start + uint64(pos)
				target := source + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos+1:]))))
				if _, entry := s.entry(target); entry {
					mine = append(mine, call{uint32(target - base), uint32(source - base)})
				}
			}
		}
		return scan, func() { found = append(found, mine...) }
	})
	slices.SortFunc(found, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.source, b.source))
	})
	return slices.Clip(found)
}
