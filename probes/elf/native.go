package elf

import (
	"encoding/binary"
	"sort"
)

// Native reports whether function i of a Go program is not Go code: assembler,
// or C. In other programs no function is native.
func (m *Module) Native(i int) bool {
	if !m.hasGo {
		return false
	}
	f := &m.functions[i]
	return !f.Go || m.isGoAssembler(f.Addr)
}

// isGoAssembler reads the flags in the pclntab of the function at addr
// (internal/abi.FuncFlagAsm, since Go 1.17).
func (c *contents) isGoAssembler(addr uint64) bool {
	const flagAsm = 4
	sec := c.image.pclntab()
	read := func(at, n uint64) []byte {
		b := make([]byte, n)
		if at+n > sec.FileSize {
			return b
		}
		if _, err := c.image.Reader.ReadAt(b, int64(sec.Offset+at)); err != nil {
			clear(b)
		}
		return b
	}
	le := binary.LittleEndian
	header := read(0, pcHeaderBytes)
	count, functions := le.Uint64(header[8:]), le.Uint64(header[8+8*7:])
	if count > MaxFunctions || functions > sec.FileSize {
		return false
	}
	row := func(i int) []byte { return read(functions+8*uint64(i), 8) } // entry, where the rest is
	i := sort.Search(int(count), func(i int) bool { return c.image.goBase+uint64(le.Uint32(row(i))) >= addr })
	if i == int(count) || c.image.goBase+uint64(le.Uint32(row(i))) != addr {
		return false
	}
	flag := uint64(41) // after ten words and the function's ID, in runtime._func
	if le.Uint32(header) == goMagic118 {
		flag = 37 // older versions have no line there
	}
	return read(functions+uint64(le.Uint32(row(i)[4:]))+flag, 1)[0]&flagAsm != 0
}
