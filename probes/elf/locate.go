package elf

import (
	"cmp"
	"slices"
	"strings"
)

// AddrOf returns the address in the file of the code at a file offset; false if
// no executable segment contains it.
func (m *Module) AddrOf(offset uint64) (uint64, bool) {
	for i := range m.image.Exec {
		s := &m.image.Exec[i]
		if offset >= s.Offset && offset-s.Offset < s.End-s.Start {
			return offset - s.Offset + s.Start, true
		}
	}
	return 0, false
}

// FunctionAt returns the function whose code contains addr; false if none is
// known. Stubs of a linkage table (PLT) belong to no function.
func (m *Module) FunctionAt(addr uint64) (int, bool) {
	i, found := slices.BinarySearchFunc(m.functions, addr, func(f Entry, addr uint64) int { return cmp.Compare(f.Addr, addr) })
	if !found {
		i--
	}
	// A function may lie within another (an entry in its middle), so the
	// nearest one need not be the one that extends far enough.
	for k := i; k >= 0 && k > i-8; k-- {
		if addr-m.functions[k].Addr < m.Extent(k) {
			return k, !m.image.IsStub(addr)
		}
	}
	return 0, false
}

// IsStub reports whether addr lies in a procedure linkage table.
func (m *Module) IsStub(addr uint64) bool { return m.image.IsStub(addr) }

// WholeOf returns the function of which the code that begins at addr is a
// piece, by the name of the piece in the symbol table: the cold part that a
// compiler has put elsewhere.
func (m *Module) WholeOf(addr uint64) (i int, ok bool) {
	ref, ok := m.fragments[addr]
	if !ok {
		return 0, false
	}
	name := m.text(ref, nil)
	found := m.Find(name[:max(0, strings.Index(name, coldSuffix))])
	if len(found) == 0 {
		return 0, false
	}
	return found[0], true
}

// Piece returns the start of the contiguous code that contains addr, by the
// unwind table; first reports whether the program begins in it. It serves to
// name code of unknown functions.
func (m *Module) Piece(addr uint64) (start uint64, first, ok bool) {
	e := m.unwind.Find(addr)
	if e == nil {
		return 0, false, false
	}
	return e.Start, e.Contains(m.image.ELF.Entry), true
}
