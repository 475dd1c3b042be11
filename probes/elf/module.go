package elf

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/probes/unwind"
)

// Module is one ELF file: an executable or a shared library. Its methods are
// safe for concurrent use.
type Module struct {
	display string
	*contents
	close func() error
}

// contents is the file-specific part of a Module, independent of its display
// name.
type contents struct {
	image      *Image
	search     Search
	notice     atomic.Pointer[string]    // about fetching its debug file
	unfetched  atomic.Pointer[time.Time] // when its debug file could not be fetched; nil: never
	unwind     *unwind.Table             // empty where there is none
	functions  []Entry                   // by address
	names      []nameRef                 // of functions, those of one function together
	tables     []nameTable
	debug      *os.File // of a table; nil: none
	otherBuild string   // a file in place of the debug file that is of another build
	hasGo      bool
	named      bool               // the file or its debug file has a table of all functions' names
	unwinders  bool               // it calls or defines code of a language that unwinds stacks
	ifuncs     map[uint64]bool    // addresses of resolvers
	fragments  map[uint64]nameRef // pieces of functions, by address
	morestack  map[uint64]bool    // addresses of Go's morestack functions

	indexed sync.Once // guards index
	index   nameIndex

	importing sync.Once // guards imported
	imported  map[uint64]string

	depthsRead sync.Once // guards depths
	depths     goDepths

	inlinesRead sync.Once // guards inlines
	inlines     goInlines
	debugInfo   debugInfo
	source      source

	variablesRead sync.Once // guards variables
	variables     []variable

	classed  sync.Once // guards classes
	classes  *Classes
	derived  sync.Map  // by type; see Derived
	goidRead sync.Once // guards goid
	goid     uint64
	slotRead sync.Once // guards slot
	slot     int64
}

// Open reads the functions of f, an open regular file that the caller keeps
// open until Close. display is the module's name for the user (the base name of
// its path). Errors say in the user's words why the file cannot be probed.
//
// Unreadable tables are skipped: a stripped or damaged file has fewer names,
// not none.
func Open(f *os.File, display string) (*Module, error) {
	c, err := open(f, Search{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", display, err)
	}
	return &Module{display: display, contents: c, close: c.close}, nil
}

// close closes the other files that were opened.
func (c *contents) close() error {
	if c.debug == nil {
		return nil
	}
	return c.debug.Close()
}

func open(f *os.File, search Search) (c *contents, err error) {
	defer RecoverAs(&err)
	im, err := OpenImage(f)
	if err != nil {
		return nil, err
	}
	c = &contents{image: im, search: search}
	unwinding := make(chan *unwind.Table, 1)
	go func() { unwinding <- im.unwindTable() }()
	c.hasGo = im.pclntab() != nil
	syms, unwinders := c.symbols(f)
	c.unwind = <-unwinding
	c.unwinders = unwinders || c.unwind.Exceptions
	c.collect(syms)
	return c, nil
}

// unwindTable returns the file's unwind table, as far as it is readable.
func (im *Image) unwindTable() (t *unwind.Table) {
	defer func() {
		if recover() != nil || t == nil {
			t = &unwind.Table{}
		}
	}()
	if data, sec, err := im.Section(".eh_frame"); err == nil && len(data) > 0 {
		t, _ = unwind.Parse(data, sec.Addr)
	}
	return t
}

// symbols collects the names of all tables. unwinders reports whether any, also
// of an import, is a C++ or Rust name.
func (c *contents) symbols(f *os.File) (syms []symbol, unwinders bool) {
	im := c.image
	syms, imports, _ := c.readSymbols(im, elf.SHT_DYNSYM)
	own, unwinders, _ := c.readSymbols(im, elf.SHT_SYMTAB)
	if len(own) == 0 {
		var debug *Image
		if debug, c.debug, c.otherBuild = c.openDebugFile(); debug != nil {
			own, unwinders, _ = c.readSymbols(debug, elf.SHT_SYMTAB)
		}
	}
	unwinders = unwinders || imports
	c.named = len(own) > 0 || im.pclntab() != nil
	if sec := im.pclntab(); sec != nil {
		text := uint64(0)
		for _, s := range own {
			if s.name == "runtime.text" {
				text = s.addr
			}
		}
		own = slices.DeleteFunc(own, func(s symbol) bool { return isGoMarker(s.name) })
		golang, _ := c.readGo(sec, text)
		syms = append(syms, golang...)
	}
	return append(syms, own...), unwinders
}

// collect creates the functions: those with names, then those found in the
// unwind table only.
func (c *contents) collect(syms []symbol) {
	c.fragments = map[uint64]nameRef{}
	syms = slices.DeleteFunc(syms, func(s symbol) bool {
		if s.fragment {
			c.fragments[s.addr] = s.ref
		}
		return s.fragment
	})
	c.morestack = map[uint64]bool{}
	for i := range syms {
		if s := &syms[i]; s.rank == rankGo && isMorestack(s.name) {
			c.morestack[s.addr] = true
		}
	}
	c.join(syms)
	for i := range c.functions {
		f := &c.functions[i]
		if f.size == 0 {
			if e := c.unwind.Find(f.Addr); e != nil && e.Start == f.Addr {
				f.size = e.End - e.Start
			}
		}
	}
	c.functions = append(c.functions, c.unnamed()...)
	slices.SortFunc(c.functions, func(a, b Entry) int { return cmp.Compare(a.Addr, b.Addr) })
	c.functions = slices.Clip(c.functions)
}

// unnamed returns the functions that no symbol covers. An unwind entry is a
// function only if the return address is on top of the stack at its start: the
// others are pieces of functions or start code. If the symbol table names
// fragments, it is decisive.
func (c *contents) unnamed() (found []Entry) {
	next, covered := 0, uint64(0)
	for i := range c.unwind.Entries {
		e := &c.unwind.Entries[i]
		for ; next < len(c.functions) && c.functions[next].Addr <= e.Start; next++ {
			// A symbol without a size covers its first instruction at least.
			f := &c.functions[next]
			covered = max(covered, f.Addr+max(min(f.size, maxCodeBytes), 1))
		}
		_, fragment := c.fragments[e.Start]
		if e.Start < covered || fragment || e.IsSignal() || c.image.IsStub(e.Start) || c.image.SegmentOf(e.Start) == nil {
			continue
		}
		if row, ok := e.Row(e.Start); !ok || !row.AtEntry() {
			continue
		}
		found = append(found, Entry{Addr: e.Start, size: e.End - e.Start})
		covered = e.End
	}
	return found
}

// Derived returns the data that another package keeps with the file: one T,
// initially zero, shared by all modules of the file.
func Derived[T any](m *Module) *T {
	kind := reflect.TypeFor[T]()
	v, ok := m.derived.Load(kind)
	if !ok {
		v, _ = m.derived.LoadOrStore(kind, new(T))
	}
	return v.(*T)
}

// Image returns the sections and segments of the file.
func (c *contents) Image() *Image { return c.image }

// UnwindTable returns the file's .eh_frame, empty if it has none.
func (c *contents) UnwindTable() *unwind.Table { return c.unwind }

// Entries returns the functions without their names. The caller must not change
// them.
func (c *contents) Entries() []Entry { return c.functions }

// GrowsStack reports whether one of Go's morestack functions begins at addr.
func (c *contents) GrowsStack(addr uint64) bool { return c.morestack[addr] }

// Close frees the module's resources.
func (m *Module) Close() error { return m.close() }

// Stripped reports whether only exported functions have names. buildID is the
// build-id by which the debug file would be found, "" if there is none;
// otherBuild is the path of a file in its place that is of another build, "" if
// there is none.
func (m *Module) Stripped() (buildID, otherBuild string, yes bool) {
	return m.image.buildID, m.otherBuild, !m.named
}

// Name returns the module's name for the user.
func (m *Module) Name() string { return m.display }

// BuildID returns the GNU build-id in hex, "" if there is none.
func (m *Module) BuildID() string { return m.image.buildID }

// HasGo reports whether the module contains Go code.
func (m *Module) HasGo() bool { return m.hasGo }

// Unwinds reports whether the module has or calls code of a language that
// unwinds stacks (C++, Rust).
func (m *Module) Unwinds() bool { return m.unwinders }

// IFunc reports whether function i is an indirect function (STT_GNU_IFUNC): its
// code runs once, to choose the variant that callers reach from then on.
func (m *Module) IFunc(i int) bool { return m.ifuncs[m.functions[i].Addr] }

// Extent returns an upper bound of the bytes from its entry that belong to
// function i: its size or, if unknown, the distance to the next function or
// unwind entry.
func (c *contents) Extent(i int) uint64 {
	f := &c.functions[i]
	if f.size > 0 {
		return f.size
	}
	end := c.image.SegmentOf(f.Addr).End
	if i+1 < len(c.functions) {
		end = min(end, c.functions[i+1].Addr)
	}
	if e := c.unwind.Next(f.Addr + 1); e != nil {
		end = min(end, max(e.Start, f.Addr+1))
	}
	return max(end, f.Addr) - f.Addr
}

// isMorestack reports whether a Go name is that of a function that grows a
// stack and enters its caller again.
func isMorestack(name string) bool {
	return strings.HasPrefix(name, "runtime.morestack")
}

// loadFactor is how many times the bytes of its tables opening a module, and naming all its
// functions, allocates at most. TestLoadMemory measures it.
const loadFactor = 16

// LoadMemory returns an upper bound of the bytes that reading the symbols of a file
// allocates; 0 if it cannot be read. It reads the headers only.
func LoadMemory(f *os.File) int64 {
	im, err := OpenImage(f)
	if err != nil {
		return 0
	}
	tables := uint64(0)
	for _, s := range im.ELF.Sections {
		switch {
		case s.Type == elf.SHT_NOBITS || s.FileSize > maxTableBytes:
		case s.Type == elf.SHT_SYMTAB, s.Type == elf.SHT_DYNSYM, s.Type == elf.SHT_STRTAB, s.Name == ".eh_frame":
			tables += s.FileSize
		}
	}
	if s := im.pclntab(); s != nil {
		tables += s.FileSize
	}
	return loadFactor * int64(min(tables, uint64(im.Size)))
}
