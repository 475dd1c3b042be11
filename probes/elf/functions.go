package elf

import (
	"fmt"
	"hash/maphash"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
)

// Entry is the part of a Function that is kept in memory.
type Entry struct {
	Addr, size uint64
	first      uint32 // index in contents.names of its first name, the best one
	names      uint16 // number of names; 0: found in the unwind table only
	Go         bool
	local      bool // other files cannot have referred to it when it was compiled
}

// Named reports whether the function has a name: it is not Synthetic.
func (e *Entry) Named() bool { return e.names > 0 }

// Len returns the number of functions. They are numbered by address; there is
// one at each.
func (m *Module) Len() int { return len(m.functions) }

// Function returns function i; its names are read from the file.
func (m *Module) Function(i int) Function {
	f := m.unnamedFunction(i, nil)
	nameFunction(&f)
	m.nameClass(&f)
	return f
}

// allBlock is the number of functions that All names at a time.
const allBlock = 4096

// All yields every function with its number, in order. It reads all names at
// once, which is much cheaper than Function for each; it keeps none.
func (m *Module) All() iter.Seq2[int, Function] {
	return func(yield func(int, Function) bool) {
		read := m.readTables()
		block := make([]Function, 0, min(m.Len(), allBlock))
		budget := maxDemangledBytes
		for first := 0; first < m.Len(); first += allBlock {
			block = block[:0]
			for i := first; i < min(first+allBlock, m.Len()); i++ {
				block = append(block, m.unnamedFunction(i, read))
			}
			budget -= nameAll(block, budget)
			for k := range block {
				m.nameClass(&block[k])
				if !yield(first+k, block[k]) {
					return
				}
			}
		}
	}
}

// unnamedFunction returns function i with its names as in the tables.
func (c *contents) unnamedFunction(i int, read texts) Function {
	f := &c.functions[i]
	out := Function{Addr: f.Addr, Size: f.size, Offset: c.OffsetOf(f.Addr)}
	if f.Go {
		out.Lang = Go
	}
	if f.names == 0 {
		out.Mangled, out.Synthetic = fmt.Sprintf("sub_%x", f.Addr), true
	} else {
		out.Mangled = c.text(c.names[f.first], read)
		for _, ref := range c.names[f.first+1 : f.first+uint32(f.names)] {
			out.Aliases = append(out.Aliases, c.text(ref, read))
		}
	}
	out.Name = out.Mangled
	return out
}

// RawNames returns the mangled names of function i.
func (c *contents) RawNames(i int) []string {
	f := &c.functions[i]
	names := make([]string, f.names)
	for k := range names {
		names[k] = c.text(c.names[int(f.first)+k], nil)
	}
	return names
}

// Entry returns the Addr and Offset of function i.
func (m *Module) Entry(i int) (addr, offset uint64) {
	addr = m.functions[i].Addr
	return addr, m.OffsetOf(addr)
}

// Size returns the size of function i in bytes, 0 if the file does not say.
func (m *Module) Size(i int) uint64 { return m.functions[i].size }

// IsLocal reports whether a symbol table has function i, and under no name that
// other files may have used. Its compiler, or one that compiled the whole
// program, knew all callers by name.
func (m *Module) IsLocal(i int) bool { return m.functions[i].local }

func (c *contents) OffsetOf(addr uint64) uint64 {
	s := c.image.SegmentOf(addr)
	return addr - s.Start + s.Offset
}

// nameClass sets the class of a Go function whose name is set.
func (c *contents) nameClass(f *Function) {
	if f.Lang == Go {
		f.Class = goClass(f.Name, func(name string) bool {
			return slices.ContainsFunc(c.find(name), func(i int) bool { return c.unnamedFunction(i, nil).Mangled == name })
		})
	}
}

// nameIndex finds functions by name. Its words have a name's hash in the upper
// half and a function's number in the lower; they are sorted.
type nameIndex []uint64

var nameSeed = maphash.MakeSeed()

func nameWord(name string, i int) uint64 {
	return maphash.String(nameSeed, name)>>32<<32 | uint64(uint32(i))
}

// largeTables is the number of bytes of names from which memory used to build
// the index is returned to the system at once. The runtime would keep it for
// minutes.
const largeTables = 8 << 20

func (c *contents) buildIndex() {
	read := c.readTables()
	index := make(nameIndex, 0, len(c.names)+len(c.names)/4)
	block := make([]Function, 0, min(len(c.functions), allBlock))
	budget := maxDemangledBytes
	for first := 0; first < len(c.functions); first += allBlock {
		block = block[:0]
		for i := first; i < min(first+allBlock, len(c.functions)); i++ {
			block = append(block, c.unnamedFunction(i, read))
		}
		budget -= nameAll(block, budget)
		for k := range block {
			f := &block[k]
			index = append(index, nameWord(f.Name, first+k))
			if f.Mangled != f.Name {
				index = append(index, nameWord(f.Mangled, first+k))
			}
			for _, alias := range f.Aliases {
				index = append(index, nameWord(alias, first+k))
			}
		}
	}
	slices.Sort(index)
	c.index = slices.Clip(slices.Compact(index))
	bytes := 0
	for _, t := range read {
		bytes += len(t)
	}
	if bytes >= largeTables {
		clear(read)
		runtime.KeepAlive(read)
		debug.FreeOSMemory()
	}
}

// find lists the functions of which some name may be name.
func (c *contents) find(name string) (candidates []int) {
	c.indexed.Do(c.buildIndex)
	at, _ := slices.BinarySearch(c.index, nameWord(name, 0))
	for _, w := range c.index[at:] {
		if w>>32 != nameWord(name, 0)>>32 {
			break
		}
		candidates = append(candidates, int(uint32(w)))
	}
	return candidates
}

// Find returns the indexes of the functions that have exactly this name,
// mangled name or alias. Instances of a template or a generic function, and
// static functions of several files, share a name.
func (m *Module) Find(name string) []int {
	return slices.DeleteFunc(m.find(name), func(i int) bool {
		f := m.unnamedFunction(i, nil)
		nameFunction(&f)
		return f.Name != name && f.Mangled != name && !slices.Contains(f.Aliases, name)
	})
}
