package elf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"
)

// Class is a C++ class, as described by run-time type information.
type Class struct {
	Name  string   // as in Function.Class
	Bases []string // direct bases, in order
	// Defined: the module has its type_info, and therefore its bases.
	Defined bool
}

// Classes is the C++ classes of a module that have run-time type information
// (Itanium C++ ABI, 2.9.5), whether or not the file has symbols:
//
//	object ─► virtual table [-1] ─► type_info { virtual table, name, bases ... }
//
// The kind of a type_info - of a class without base, with one, with several -
// is given by its own virtual table. Where a word refers to another module, its
// symbol names the target.
//
// The methods are safe for concurrent use.
type Classes struct {
	data    *loadedData
	objects []object // virtual tables and type_infos that have symbols, by address
	within  Span     // addresses that the loaded module spans
	mapped  []Span   // addresses of its data

	mu    sync.Mutex
	kinds map[uint64]typeKind // by address of a type_info's virtual table
	known map[uint64]*Class   // by address of the type_info; nil: there is none
	named map[string]*Class   // all classes; nil until needed
}

// object is a symbol of data.
type object struct {
	Span
	name string
}

// typeKind is a kind of type_info.
type typeKind uint8

const (
	noClass typeKind = iota
	classType
	derivedType // __si_class_type_info: one base, public, not virtual
	severalType // __vmi_class_type_info
)

// kindNames maps the names of the classes of type_infos to kinds.
var kindNames = map[string]typeKind{
	"N10__cxxabiv117__class_type_infoE":     classType,
	"N10__cxxabiv120__si_class_type_infoE":  derivedType,
	"N10__cxxabiv121__vmi_class_type_infoE": severalType,
}

// Prefixes of symbols of the C++ ABI.
const (
	symbolTable        = "_ZTV"
	symbolTypeInfo     = "_ZTI"
	symbolTypeName     = "_ZTS"
	symbolConstruction = "_ZTC" // virtual tables used while a class with virtual bases is constructed
)

// Limits on what a file may cause.
const (
	maxBases   = 1 << 10
	maxClasses = 1 << 20
	// pointIn is the offset in a virtual table that objects point to: after the
	// offset to the top and the type_info.
	pointIn = 16
)

// Classes returns the classes of objects. It reads a file once.
func (m *Module) Classes() *Classes {
	m.classed.Do(func() {
		im := m.image
		c := &Classes{data: readLoadedData(im), kinds: map[uint64]typeKind{}, known: map[uint64]*Class{}, within: Span{Start: ^uint64(0)}}
		for _, p := range im.ELF.Progs {
			if p.Type == elf.PT_LOAD && p.Vaddr+p.Memsz >= p.Vaddr {
				c.within.Start = min(c.within.Start, p.Vaddr)
				c.within.End = max(c.within.End, p.Vaddr+p.Memsz)
			}
		}
		for _, s := range im.ELF.Sections {
			if (s.Type == elf.SHT_PROGBITS || s.Type == elf.SHT_NOBITS) && s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR|elf.SHF_TLS) == elf.SHF_ALLOC && s.Addr+s.Size >= s.Addr {
				c.mapped = append(c.mapped, Span{s.Addr, s.Addr + s.Size})
			}
		}
		c.readObjects(im)
		if m.debug != nil {
			if d, err := OpenImage(m.debug); err == nil {
				c.readObjects(d)
			}
		}
		slices.SortFunc(c.objects, func(a, b object) int { return cmp.Compare(a.Start, b.Start) })
		m.classes = c
	})
	return m.classes
}

// readObjects records the symbols of virtual tables and type_infos. Where a
// program has copies of a library's, only the symbols identify them.
func (c *Classes) readObjects(table *Image) {
	for _, s := range table.ELF.Sections {
		if (s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_SYMTAB) || int(s.Link) >= len(table.ELF.Sections) {
			continue
		}
		symbols, err := table.ReadSection(s)
		text, err2 := table.ReadSection(table.ELF.Sections[s.Link])
		if err != nil || err2 != nil || !bytes.Contains(text, []byte("\x00_ZT")) {
			continue
		}
		names := string(text)
		for ; len(symbols) >= elf.Sym64Size && len(c.objects) < maxClasses; symbols = symbols[elf.Sym64Size:] {
			le := binary.LittleEndian
			name := WithoutVersion(StringAt(names, le.Uint32(symbols)))
			if elf.ST_TYPE(symbols[4]) != elf.STT_OBJECT || le.Uint16(symbols[6:]) == uint16(elf.SHN_UNDEF) || len(name) < 5 {
				continue
			}
			switch name[:4] {
			case symbolTable, symbolTypeInfo, symbolConstruction:
				at := le.Uint64(symbols[8:])
				c.objects = append(c.objects, object{Span{at, at + le.Uint64(symbols[16:])}, name})
			}
		}
	}
}

// objectAt returns the symbol with one of the prefixes that contains addr, ""
// if there is none.
func (c *Classes) objectAt(addr uint64, prefixes ...string) (name string, start uint64) {
	i, _ := slices.BinarySearchFunc(c.objects, addr+1, func(o object, addr uint64) int { return cmp.Compare(o.Start, addr) })
	for i--; i >= 0 && c.objects[i].Contains(addr); i-- {
		if o := c.objects[i]; slices.Contains(prefixes, o.name[:4]) {
			return o.name, o.Start
		}
	}
	return "", 0
}

// Contains reports whether the loaded module spans the address.
func (c *Classes) Contains(addr uint64) bool { return c.within.Contains(addr) }

// At returns the class of the objects that point to a virtual table of the
// module at addr; false if there is none.
func (c *Classes) At(addr uint64) (Class, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const furthest = 1 << 40
	if addr%8 != 0 || !slices.ContainsFunc(c.mapped, func(s Span) bool { return s.Contains(addr) }) {
		return Class{}, false
	}
	top, info := c.data.word(addr-16), c.data.word(addr-8)
	if top.symbol != "" || int64(top.value) > furthest || int64(top.value) < -furthest {
		return Class{}, false
	}
	if name, ok := importedClass(info); ok {
		return Class{Name: name}, true
	}
	if k := c.class(info.value, 0); k != nil {
		return *k, true
	}
	if info != (word{}) {
		return Class{}, false
	}
	// No type information, or a copy of a library's.
	symbol, start := c.objectAt(addr, symbolTable, symbolConstruction)
	if symbol == "" || addr < start+pointIn {
		return Class{}, false
	}
	name, ok := classOfSymbol(symbol)
	return Class{Name: name}, ok
}

// Named returns the class with a name.
func (c *Classes) Named(name string) (Class, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named == nil {
		c.enumerate()
	}
	if k := c.named[name]; k != nil {
		return *k, true
	}
	return Class{}, false
}

// All returns the classes that the module defines, by name.
func (c *Classes) All() []Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named == nil {
		c.enumerate()
	}
	var out []Class
	for _, name := range slices.Sorted(maps.Keys(c.named)) {
		if k := c.named[name]; k.Defined {
			out = append(out, *k)
		}
	}
	return out
}

// importedClass returns the class of a word that refers to another module's
// type_info.
func importedClass(w word) (string, bool) {
	if !w.imported || w.value != 0 || !strings.HasPrefix(w.symbol, symbolTypeInfo) {
		return "", false
	}
	return classOfSymbol(w.symbol)
}

// class returns the class of the type_info at an address, nil if there is none.
// depth stops the recursion in invalid files whose types derive from
// themselves.
func (c *Classes) class(at uint64, depth int) *Class {
	k, ok := c.known[at]
	if ok || at == 0 || depth > maxBases || len(c.known) > maxClasses {
		return k
	}
	c.known[at] = nil
	k = c.read(at, depth)
	c.known[at] = k
	return k
}

func (c *Classes) read(at uint64, depth int) *Class {
	kind := c.kind(at)
	if kind == noClass {
		// A copy of another module's type_info, whose content is not in the
		// file.
		if symbol, start := c.objectAt(at, symbolTypeInfo); symbol != "" && start == at {
			if name, ok := classOfSymbol(symbol); ok {
				return &Class{Name: name}
			}
		}
		return nil
	}
	name, ok := c.name(at)
	if !ok {
		return nil
	}
	k := &Class{Name: name, Defined: true}
	first, n, stride := at+16, uint64(1), uint64(16)
	switch kind {
	case classType:
		n = 0
	case severalType: // flags and number, of 32 bits each; then bases, each with its flags and offset
		first, n = at+24, c.data.word(at+16).value>>32
	}
	for i := range min(n, maxBases) {
		w := c.data.word(first + i*stride)
		if base, ok := importedClass(w); ok {
			k.Bases = append(k.Bases, base)
		} else if b := c.class(w.value, depth+1); b != nil {
			k.Bases = append(k.Bases, b.Name)
		}
	}
	return k
}

// kind returns the kind of the type_info at an address.
func (c *Classes) kind(at uint64) typeKind {
	w := c.data.word(at)
	if k, ok := strings.CutPrefix(w.symbol, symbolTable); ok {
		return kindNames[k]
	}
	if w.symbol != "" || w.value < pointIn || w.value%8 != 0 {
		return noClass
	}
	kind, ok := c.kinds[w.value]
	if !ok {
		if symbol, start := c.objectAt(w.value, symbolTable); start == w.value-pointIn {
			kind = kindNames[strings.TrimPrefix(symbol, symbolTable)]
		}
		if kind == noClass {
			kind = kindNames[c.typeName(c.data.word(w.value-8).value)]
		}
		if len(c.kinds) < maxClasses {
			c.kinds[w.value] = kind
		}
	}
	return kind
}

// typeName returns the mangled name of the type_info at an address.
func (c *Classes) typeName(at uint64) string {
	if at == 0 {
		return ""
	}
	w := c.data.word(at + 8)
	if w.imported {
		return strings.TrimPrefix(w.symbol, symbolTypeName)
	}
	// An asterisk means that types are compared by address, not by name.
	return strings.TrimPrefix(c.data.text(w.value), "*")
}

func (c *Classes) name(at uint64) (string, bool) {
	mangled := c.typeName(at)
	if mangled == "" {
		return "", false
	}
	return classOfSymbol(symbolTypeInfo + mangled)
}

// enumerate finds all type_infos: those with symbols, and the words that point
// to the virtual tables of type_infos.
func (c *Classes) enumerate() {
	c.named = map[string]*Class{}
	at := map[uint64]bool{}
	for _, o := range c.objects {
		if o.name[:4] == symbolTypeInfo {
			at[o.Start] = true
		}
	}
	for _, p := range c.data.pointers {
		if p.symbol != 0 && strings.HasPrefix(c.data.filledIn(p).symbol, symbolTable+"N10__cxxabiv1") {
			at[p.at] = true
		}
	}
	for _, addr := range c.data.wordsWith(c.kindTables()) {
		at[addr] = true
	}
	for addr := range at {
		if k := c.class(addr, 0); k != nil && (c.named[k.Name] == nil || k.Defined) {
			c.named[k.Name] = k
		}
	}
}

// kindTables returns the addresses in this module to which the type_infos of
// the three kinds point: by symbols or, in a stripped program with the library
// linked statically, by the names of the kinds.
func (c *Classes) kindTables() map[uint64]bool {
	tables := map[uint64]bool{}
	for _, o := range c.objects {
		if kindNames[strings.TrimPrefix(o.name, symbolTable)] != noClass {
			tables[o.Start+pointIn] = true
		}
	}
	if len(tables) > 0 {
		return tables
	}
	names, infos := map[uint64]bool{}, map[uint64]bool{}
	for _, s := range c.data.constants() {
		for name := range kindNames {
			if i := bytes.Index(s.Data, append([]byte(name), 0)); i >= 0 {
				names[s.Addr+uint64(i)] = true
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	for _, at := range c.data.wordsWith(names) {
		infos[at-8] = true
	}
	for _, at := range c.data.wordsWith(infos) {
		tables[at+8] = true
	}
	return tables
}

// classOfSymbol returns the class that a symbol of a virtual table or type_info
// belongs to.
func classOfSymbol(symbol string) (name string, ok bool) {
	if len(symbol) > maxName {
		return "", false
	}
	defer func() {
		if recover() != nil { // the demangler failed on a name
			name, ok = "", false
		}
	}()
	tree, err := demangle.ToAST(symbol, demangle.NoParams)
	if err != nil {
		return "", false
	}
	var of demangle.AST
	switch n := tree.(type) {
	case *demangle.Special: // virtual table for X, type_info for X
		of = n.Val
	case *demangle.Special2: // construction virtual table for X in Y
		of = n.Val1
	default:
		return "", false
	}
	return demangle.ASTToString(of, demangle.NoParams, demangle.MaxLength(maxDemangledPower)), true
}

// Bias returns the difference between addresses in the process and in the file,
// if the start of the file is mapped at start.
func (c *Classes) Bias(start uint64) uint64 {
	const page = 4096
	return start - c.within.Start&^(page-1)
}
