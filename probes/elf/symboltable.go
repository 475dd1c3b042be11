package elf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// symbol is one name of one address, before names are joined into functions.
type symbol struct {
	addr, size uint64
	name       string
	ref        nameRef
	rank       rank
	ifunc      bool
	fragment   bool // a piece of a function
}

// rank orders the names of an address: the lowest names the function. Among
// those of a symbol table the one with the fewest leading underscores comes
// first, so that `puts` (weak) wins over `_IO_puts` (global).
type rank uint8

const (
	rankGo rank = iota // pclntab: the runtime's own name
	rankGlobal
	rankWeak
	rankLocal
)

// readSymbols reads the functions of a symbol table (.symtab or .dynsym) of
// table, as far as they lie in executable segments of the module; table is
// another file's image if it is a separate debug file. unwinders reports
// whether a function, also one that is only referred to, has a C++ or Rust
// name.
func (c *contents) readSymbols(table *Image, kind elf.SectionType) (syms []symbol, unwinders bool, err error) {
	var sec *elf.Section
	for _, s := range table.ELF.Sections {
		if s.Type == kind {
			sec = s
			break
		}
	}
	if sec == nil || int(sec.Link) >= len(table.ELF.Sections) {
		return nil, false, nil
	}
	data, err := table.ReadSection(sec)
	if err != nil {
		return nil, false, err
	}
	strings := table.ELF.Sections[sec.Link]
	text, err := table.ReadSection(strings)
	if err != nil {
		return nil, false, err
	}
	names := string(text) // one copy shared by all names until they are joined
	at := c.addTable(table, strings, 0, uint64(len(text)))

	if len(data)/elf.Sym64Size > MaxFunctions {
		return nil, false, fmt.Errorf("section %s has more than %d symbols", sec.Name, MaxFunctions)
	}
	budget := newNameBudget(len(text), len(data)/elf.Sym64Size)
	syms = make([]symbol, 0, min(len(data)/elf.Sym64Size, 1<<15))
	for ; len(data) >= elf.Sym64Size; data = data[elf.Sym64Size:] {
		info, section := data[4], elf.SectionIndex(binary.LittleEndian.Uint16(data[6:]))
		typ := elf.ST_TYPE(info)
		if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC && !(typ == elf.STT_NOTYPE && section == elf.SHN_UNDEF) {
			continue
		}
		s := symbol{
			addr:  binary.LittleEndian.Uint64(data[8:]),
			size:  binary.LittleEndian.Uint64(data[16:]),
			name:  WithoutVersion(StringAt(names, binary.LittleEndian.Uint32(data))),
			ifunc: typ == elf.STT_GNU_IFUNC,
		}
		s.ref = nameRef{binary.LittleEndian.Uint32(data), uint16(len(s.name)), at}
		unwinders = unwinders || isMangled(s.name)
		if section == elf.SHN_UNDEF || s.name == "" || c.image.SegmentOf(s.addr) == nil || !budget.take(s.name) {
			continue
		}
		s.fragment = isFragment(s.name)
		switch elf.ST_BIND(info) {
		case elf.STB_LOCAL:
			s.rank = rankLocal
		case elf.STB_WEAK:
			s.rank = rankWeak
		default:
			s.rank = rankGlobal
		}
		syms = append(syms, s)
	}
	return syms, unwinders, nil
}

// nameBudget bounds the length of all names of a table. In a damaged one many symbols may
// have the same long name, of which each reader of the names makes a copy for each.
type nameBudget int

// newNameBudget returns that of a number of symbols with names in a text: names may be parts
// of others, and short ones may be shared.
func newNameBudget(text, symbols int) nameBudget { return nameBudget(4*text + 64*symbols) }

func (b *nameBudget) take(name string) bool {
	*b -= nameBudget(len(name))
	return *b >= 0
}

// StringAt returns the string at an offset of a string table; "" if there is
// none or it is too long to be a name.
func StringAt(names string, at uint32) string {
	if uint64(at) >= uint64(len(names)) {
		return ""
	}
	s := names[at:]
	s = s[:min(len(s), maxName+1)]
	return s[:max(strings.IndexByte(s, 0), 0)]
}

// WithoutVersion removes the symbol version that static tables append
// (`memcpy@@GLIBC_2.14`).
func WithoutVersion(name string) string {
	if v := strings.IndexByte(name, '@'); v > 0 {
		return name[:v]
	}
	return name
}

// isFragment reports whether a symbol names a piece of a function that is
// jumped into (gcc's and clang's cold paths).
func isFragment(name string) bool {
	return strings.HasSuffix(name, coldSuffix) || strings.Contains(name, coldSuffix+".")
}

const coldSuffix = ".cold"

// IsPart reports whether a symbol names the outlined rest of a function that
// gcc has split.
func IsPart(name string) bool { return strings.Contains(name, ".part.") }

// join creates functions from symbols, one per address, named by the best
// symbol there, and records the addresses of indirect functions.
func (c *contents) join(syms []symbol) {
	slices.SortFunc(syms, func(a, b symbol) int {
		if order := cmp.Compare(a.addr, b.addr); order != 0 {
			return order
		}
		return cmp.Or(
			cmp.Compare(min(a.rank, rankGlobal), min(b.rank, rankGlobal)),
			cmp.Compare(underscores(a.name), underscores(b.name)),
			cmp.Compare(a.rank, b.rank),
			cmp.Compare(len(a.name), len(b.name)),
			cmp.Compare(a.name, b.name),
		)
	})
	c.ifuncs = map[uint64]bool{}
	for i := 0; i < len(syms); {
		best := syms[i]
		f := Entry{Addr: best.addr, first: uint32(len(c.names)), Go: best.rank == rankGo, local: true}
		c.names = append(c.names, best.ref)
		for last := best.name; i < len(syms) && syms[i].addr == f.Addr; i++ {
			s := &syms[i]
			f.size = max(f.size, s.size)
			f.local = f.local && s.rank == rankLocal
			if s.ifunc {
				c.ifuncs[f.Addr] = true
			}
			if s.name != last && s.name != best.name && uint32(len(c.names))-f.first < maxNames {
				c.names = append(c.names, s.ref)
				last = s.name
			}
		}
		f.names = uint16(uint32(len(c.names)) - f.first)
		c.functions = append(c.functions, f)
	}
	c.names = slices.Clip(c.names)
}

// maxNames limits the names of a function.
const maxNames = 1 << 15

// underscores counts the leading underscores of a plain name. They mark the
// internal names of a library (`__libc_malloc` beside `malloc`); mangled names
// begin with one for another reason.
func underscores(name string) int {
	if isMangled(name) {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}

// debuglink returns the content of .gnu_debuglink: the base name of a debug
// file, and the checksum of its content (CRC-32 of IEEE 802.3).
func debuglink(im *Image) (name string, sum uint32) {
	b, _, _ := im.Section(".gnu_debuglink")
	n := bytes.IndexByte(b, 0)
	at := (n + 4) &^ 3
	if n <= 0 || bytes.IndexByte(b[:n], '/') >= 0 || len(b) < at+4 {
		return "", 0
	}
	return string(b[:n]), im.ELF.ByteOrder.Uint32(b[at:])
}

// variable is a variable of a symbol table.
type variable struct {
	Span
	name string
	rank rank
}

// maxVariables bounds the variables that are read of a file.
const maxVariables = 1 << 20

// VariableAt returns the name of the variable that contains an address of the file; false
// if there is none. It reads the symbol tables once.
func (m *Module) VariableAt(addr uint64) (name string, ok bool) {
	m.variablesRead.Do(func() { m.variables = m.readVariables() })
	i, _ := slices.BinarySearchFunc(m.variables, addr+1, func(v variable, addr uint64) int { return cmp.Compare(v.Start, addr) })
	if i--; i < 0 || addr >= max(m.variables[i].End, m.variables[i].Start+1) {
		return "", false
	}
	return demangle.Filter(m.variables[i].name), true
}

// readVariables returns the variables by address, one for each.
func (m *Module) readVariables() (list []variable) {
	defer func() { recover() }() // a damaged file has none
	tables := []*Image{m.image}
	if m.debug != nil {
		if d, err := OpenImage(m.debug); err == nil {
			tables = append(tables, d)
		}
	}
	le := binary.LittleEndian
	for _, table := range tables {
		for _, s := range table.ELF.Sections {
			if (s.Type != elf.SHT_DYNSYM && s.Type != elf.SHT_SYMTAB) || int(s.Link) >= len(table.ELF.Sections) {
				continue
			}
			symbols, err := table.ReadSection(s)
			text, err2 := table.ReadSection(table.ELF.Sections[s.Link])
			if err != nil || err2 != nil {
				continue
			}
			names := string(text)
			for ; len(symbols) >= elf.Sym64Size && len(list) < maxVariables; symbols = symbols[elf.Sym64Size:] {
				if elf.ST_TYPE(symbols[4]) != elf.STT_OBJECT || le.Uint16(symbols[6:]) == uint16(elf.SHN_UNDEF) {
					continue
				}
				v := variable{name: WithoutVersion(StringAt(names, le.Uint32(symbols))), rank: rankGlobal}
				v.Start = le.Uint64(symbols[8:])
				v.End = v.Start + le.Uint64(symbols[16:])
				if elf.ST_BIND(symbols[4]) == elf.STB_LOCAL {
					v.rank = rankLocal
				}
				if v.name != "" && v.End >= v.Start {
					list = append(list, v)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b variable) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.rank, b.rank), cmp.Compare(b.End, a.End), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(list, func(a, b variable) bool { return a.Start == b.Start })
}
