package elf

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
)

// Go's functions have trees of the calls inlined into them and, for each
// instruction, the innermost such call that it belongs to
// (runtime/symtabinl.go, from Go 1.20 on; older versions had another layout,
// and are not read).

// goInlines locates these tables.
type goInlines struct {
	names string // of functions, each terminated by 0
	trees uint64 // address that the offsets of trees are relative to (moduledata.gofunc); 0: unknown
}

// Offsets in the pclntab's record of a function (runtime._func), in an entry of
// a tree (runtime.inlinedCall), and in runtime.moduledata.
const (
	funcTables    = 28 // number of tables of values
	funcData      = 43 // number of data offsets after those
	funcBytes     = 44
	inlineIndex   = 2 // table: index of the call in the tree (PCDATA_InlTreeIndex)
	inlineTree    = 3 // data: the tree (FUNCDATA_InlTree)
	inlinedName   = 4
	inlinedParent = 8
	inlinedBytes  = 16

	moduledataGoFunc = 320
)

// maxInlined limits the depth of inlined calls that is accepted.
const maxInlined = 64

// Inlined returns the functions inlined into the function at addr to which the
// instruction there belongs, innermost first; none if the module does not say.
// Only their names are set.
func (m *Module) Inlined(addr uint64) []Function {
	if !m.hasGo {
		return nil
	}
	i, ok := m.FunctionAt(addr)
	if !ok || !m.functions[i].Go {
		return nil
	}
	names := m.goInlined(m.functions[i].Addr, addr)
	found := make([]Function, len(names))
	for i, name := range names {
		f := Function{Mangled: name, Lang: Go}
		nameFunction(&f)
		m.nameClass(&f)
		found[i] = f
	}
	return found
}

// goInlined returns the names of those functions, for an address in the Go
// function that begins at entry.
func (c *contents) goInlined(entry, addr uint64) (names []string) {
	c.depthsRead.Do(c.readGoDepths)
	c.inlinesRead.Do(c.readGoInlines)
	d, le := &c.depths, binary.LittleEndian
	i, found := slices.BinarySearchFunc(d.entries, entry, cmp.Compare)
	if !found || c.inlines.trees == 0 {
		return nil
	}
	record := d.functions[min(uint64(d.records[i]), uint64(len(d.functions))):]
	if len(record) < funcBytes {
		return nil
	}
	tables := int(le.Uint32(record[funcTables:]))
	if tables <= inlineIndex || tables > len(record)/4 || record[funcData] <= inlineTree || len(record) < funcBytes+4*(tables+inlineTree+1) {
		return nil
	}
	program := le.Uint32(record[funcBytes+4*inlineIndex:])
	tree := le.Uint32(record[funcBytes+4*(tables+inlineTree):])
	if program == 0 || tree == ^uint32(0) {
		return nil
	}
	for len(names) < maxInlined {
		index, ok := d.value(program, entry, addr)
		if !ok || index < 0 {
			break
		}
		call := c.image.Data(c.inlines.trees+uint64(tree)+uint64(index)*inlinedBytes, inlinedBytes)
		if len(call) < inlinedBytes {
			break
		}
		name := StringAt(c.inlines.names, le.Uint32(call[inlinedName:]))
		if name == "" {
			break
		}
		names = append(names, name)
		addr = entry + uint64(le.Uint32(call[inlinedParent:]))
	}
	return names
}

func (c *contents) readGoInlines() {
	im := c.image
	sec := im.pclntab()
	if sec == nil {
		return
	}
	header := make([]byte, pcHeaderBytes)
	le := binary.LittleEndian
	if _, err := im.Reader.ReadAt(header, int64(sec.Offset)); err != nil || le.Uint32(header) != goMagic120 {
		return
	}
	from, to := le.Uint64(header[8+8*3:]), le.Uint64(header[8+8*4:])
	if from > to || to > sec.FileSize || to-from > uint64(min(im.Size, maxTableBytes)) {
		return
	}
	names := make([]byte, to-from)
	if _, err := im.Reader.ReadAt(names, int64(sec.Offset+from)); err != nil {
		return
	}
	c.inlines = goInlines{names: string(names), trees: im.goFunctionData(sec.Addr)}
}

// goFunctionData finds the address that the offsets of functions' data are
// relative to, in the runtime's moduledata (see goText).
func (im *Image) goFunctionData(pclntab uint64) uint64 {
	le := binary.LittleEndian
	for _, s := range im.ELF.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_WRITE == 0 || s.FileSize < moduledataGoFunc+8 {
			continue
		}
		data, err := im.ReadSection(s)
		if err != nil {
			continue
		}
		for at := 0; at+moduledataGoFunc+8 <= len(data); at += 8 {
			if le.Uint64(data[at:]) == pclntab && le.Uint64(data[at+moduledataText:]) == im.goBase {
				return le.Uint64(data[at+moduledataGoFunc:])
			}
		}
	}
	starts := map[uint64]bool{}
	relocations := im.RelativeRelocations()
	for at, value := range relocations {
		if value == pclntab && len(starts) < maxSegments {
			starts[at] = true
		}
	}
	texts, trees := map[uint64]bool{}, map[uint64]uint64{} // by start of a moduledata
	for at, value := range relocations {
		if starts[at-moduledataText] && value == im.goBase {
			texts[at-moduledataText] = true
		}
		if starts[at-moduledataGoFunc] {
			trees[at-moduledataGoFunc] = value
		}
	}
	for start, tree := range trees {
		if texts[start] {
			return tree
		}
	}
	return 0
}
