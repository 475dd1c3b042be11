package symbols

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"sort"
)

// Module is one ELF file: an executable or a shared library.
type Module struct {
	display   string
	file      *os.File
	elf       *elf.File
	functions []Function
}

// Open reads the functions of f, an opened regular file that the caller keeps
// open until Close. display is the module's name for the user.
func Open(f *os.File, display string) (*Module, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", display, err)
	}
	m := &Module{display: display, file: f, elf: e}
	syms, _ := e.Symbols()
	dyn, _ := e.DynamicSymbols()
	seen := map[uint64]bool{}
	for _, s := range append(syms, dyn...) {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || seen[s.Value] {
			continue
		}
		for _, p := range e.Progs {
			if p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value < p.Vaddr+p.Filesz {
				seen[s.Value] = true
				m.functions = append(m.functions, Function{Name: s.Name, Mangled: s.Name, Addr: s.Value, Size: s.Size, Offset: s.Value - p.Vaddr + p.Off})
			}
		}
	}
	sort.Slice(m.functions, func(i, j int) bool { return m.functions[i].Addr < m.functions[j].Addr })
	return m, nil
}

// Close frees what the module holds.
func (m *Module) Close() error { return nil }

// Name is the module's display name.
func (m *Module) Name() string { return m.display }

// BuildID is the GNU build-id in hex, "" if there is none.
func (m *Module) BuildID() string { return "" }

// Is64 reports whether the code is 64-bit.
func (m *Module) Is64() bool { return true }

// HasGo reports whether the module contains Go code.
func (m *Module) HasGo() bool { return false }

// Functions are the module's functions, sorted by address, one per address.
// The slice is shared and must not be changed.
func (m *Module) Functions() []Function { return m.functions }

// Find returns the indexes of the functions that have exactly this name,
// mangled name or alias.
func (m *Module) Find(name string) []int {
	var found []int
	for i := range m.functions {
		if m.functions[i].Name == name {
			found = append(found, i)
		}
	}
	return found
}

// Nearest returns up to n names that resemble name, the best first.
func (m *Module) Nearest(name string, n int) []string { return nil }

// EntrySite is where a call of function i is to be probed.
func (m *Module) EntrySite(i int) (Site, error) {
	f := m.functions[i]
	b := make([]byte, 1)
	if _, err := m.file.ReadAt(b, int64(f.Offset)); err != nil {
		return Site{}, errors.New("its code cannot be read")
	}
	return Site{Offset: f.Offset, Addr: f.Addr, Method: Stepped, Bytes: b}, nil
}

// ReturnTrap reports whether the return address of function i may be replaced
// by the kernel's trampoline, and if not, why.
func (m *Module) ReturnTrap(i int) (ok bool, reason string) { return false, "not known to be safe" }

// IFunc reports whether function i is an indirect function (STT_GNU_IFUNC).
func (m *Module) IFunc(i int) bool { return false }
