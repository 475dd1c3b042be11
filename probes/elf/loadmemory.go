package elf

import (
	"debug/elf"
	"os"
)

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
