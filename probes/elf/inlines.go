package elf

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"

	"endoscope/probes/dwarf/debuginfo"
)

// Go's functions have trees of the calls inlined into them and, for each
// instruction, the innermost such call that it belongs to, its file and line
// (runtime/symtabinl.go, from Go 1.20 on; older versions had another layout,
// and are not read).

// goInlines locates these tables.
type goInlines struct {
	names string // of functions, each terminated by 0
	files string // paths, likewise
	units []byte // offsets of the paths of each compilation unit, by the unit's number of a file
	trees uint64 // address that the offsets of trees are relative to (moduledata.gofunc); 0: unknown
}

// Offsets in the pclntab's record of a function (runtime._func), in an entry of
// a tree (runtime.inlinedCall), and in runtime.moduledata.
const (
	funcFiles     = 20 // table: the unit's number of the file (pcfile)
	funcLines     = 24 // table: the line (pcln)
	funcTables    = 28 // number of tables of values
	funcUnit      = 32 // index of the unit's first file
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

// Call is a call that was compiled into its caller: its function, of which only the names are
// set, and the place in it.
type Call struct {
	Function
	debuginfo.Position
}

// Calls returns the calls compiled into the function at addr to which the instruction there
// belongs, innermost first, and the place where the function itself is; none where it is not
// known. source is that of the module for code that is not Go's, or nil. The places are read
// only if lines is set.
func (m *Module) Calls(addr uint64, source *debuginfo.Source, lines bool) (inlined []Call, at debuginfo.Position) {
	if i, ok := m.FunctionAt(addr); ok && m.functions[i].Go {
		return m.goCalls(m.functions[i].Addr, addr, lines)
	}
	if source == nil {
		return nil, at
	}
	calls, at := source.Inlined(addr, lines)
	for _, c := range calls {
		f := Function{Mangled: cmp.Or(c.Linkage, c.Name)}
		f.Name = f.Mangled
		if nameFunction(&f); f.Name == "" {
			f.Name = unnamedCall
		}
		if f.Lang == C && c.Linkage == "" && strings.Contains(f.Name, "::") {
			f.Lang = CPP
		}
		inlined = append(inlined, Call{f, c.Position})
	}
	return inlined, at
}

// unnamedCall is the name of an inlined function whose name is not known.
const unnamedCall = "[inlined]"

// goCalls is Calls for an address in the Go function that begins at entry.
func (m *Module) goCalls(entry, addr uint64, lines bool) (inlined []Call, at debuginfo.Position) {
	place := func(addr uint64) (p debuginfo.Position) {
		if lines {
			p = m.goLine(entry, addr)
		}
		return p
	}
	for _, c := range m.goInlined(entry, addr) {
		f := Function{Mangled: c.name, Lang: Go}
		nameFunction(&f)
		m.nameClass(&f)
		inlined = append(inlined, Call{f, place(addr)})
		addr = c.caller
	}
	return inlined, place(addr)
}

// goInline is an inlined call: its function, and the address of the call in its caller.
type goInline struct {
	name   string
	caller uint64
}

// goRecord returns the record of the Go function that begins at entry; nil if there is none.
func (c *contents) goRecord(entry uint64) []byte {
	c.depthsRead.Do(c.readGoDepths)
	c.inlinesRead.Do(c.readGoInlines)
	d := &c.depths
	i, found := slices.BinarySearchFunc(d.entries, entry, cmp.Compare)
	if !found {
		return nil
	}
	record := d.functions[min(uint64(d.records[i]), uint64(len(d.functions))):]
	if len(record) < funcBytes {
		return nil
	}
	return record
}

// goInlined returns the inlined calls for an address in the Go function that begins at entry,
// innermost first.
func (c *contents) goInlined(entry, addr uint64) (calls []goInline) {
	record, le := c.goRecord(entry), binary.LittleEndian
	if record == nil || c.inlines.trees == 0 {
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
	for len(calls) < maxInlined {
		index, ok := c.depths.value(program, entry, addr)
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
		addr = entry + uint64(le.Uint32(call[inlinedParent:]))
		calls = append(calls, goInline{name, addr})
	}
	return calls
}

// goLine returns the line of the instruction at addr, in the Go function that begins at entry
// (runtime/symtab.go, funcline1), of the innermost inlined call there; of line 0 if it is not
// known.
func (c *contents) goLine(entry, addr uint64) (at debuginfo.Position) {
	record, le := c.goRecord(entry), binary.LittleEndian
	if record == nil {
		return at
	}
	file, ok := c.depths.value(le.Uint32(record[funcFiles:]), entry, addr)
	line, known := c.depths.value(le.Uint32(record[funcLines:]), entry, addr)
	unit := uint64(le.Uint32(record[funcUnit:]))
	if !ok || !known || file < 0 || line <= 0 || 4*(unit+uint64(file))+4 > uint64(len(c.inlines.units)) {
		return at
	}
	name := le.Uint32(c.inlines.units[4*(unit+uint64(file)):])
	if name == ^uint32(0) {
		return at
	}
	at.File, at.Line = StringAt(c.inlines.files, name), int(line)
	return at
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
	part := func(first int) []byte {
		from, to := le.Uint64(header[8+8*first:]), le.Uint64(header[8+8*(first+1):])
		if from > to || to > sec.FileSize || to-from > uint64(min(im.Size, maxTableBytes)) {
			return nil
		}
		b := make([]byte, to-from)
		if _, err := im.Reader.ReadAt(b, int64(sec.Offset+from)); err != nil {
			return nil
		}
		return b
	}
	c.inlines = goInlines{names: string(part(3)), units: part(4), files: string(part(5)), trees: im.goFunctionData(sec.Addr)}
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
