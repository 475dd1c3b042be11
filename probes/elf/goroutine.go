package elf

import (
	"debug/elf"
	"encoding/binary"

	"endoscope/probes/lang/golang"
)

// GoidOffset returns the offset in g (runtime/runtime2.go) of the goroutine's
// number in this program, 0 if unknown since the program was stripped. It is
// read once.
func (m *Module) GoidOffset() uint64 {
	m.goidRead.Do(func() { m.goid, _ = golang.NumberOffset(m.image.Reader) })
	return m.goid
}

// ownSlot is the slot in a Go program without other thread-local data.
const ownSlot = -8

// GoSlot returns where a thread of this Go program has its current g: an offset
// from the end of its thread-local data (fs), which is negative; 0 if unknown.
// C code may have thread-local data after Go's (runtime.tlsg), and that of a
// library is where the loader had room. It is read once.
func (m *Module) GoSlot() int64 {
	m.slotRead.Do(func() { m.slot = m.image.goSlot() })
	return m.slot
}

// goSlot follows variant II of "ELF Handling for Thread-Local Storage"
// (Drepper): the data of the executable ends at fs, with its size rounded up.
func (im *Image) goSlot() int64 {
	var data *elf.Prog
	executable := im.ELF.Type == elf.ET_EXEC
	for _, p := range im.ELF.Progs {
		executable = executable || p.Type == elf.PT_INTERP
		if p.Type == elf.PT_TLS {
			data = p
		}
	}
	if !executable {
		return 0
	}
	if data == nil || data.Memsz == -ownSlot {
		return ownSlot
	}
	at, ok := im.threadLocal("runtime.tlsg")
	align := max(data.Align, 1)
	if !ok || at >= data.Memsz || data.Memsz > maxTableBytes || align > maxTableBytes || align&(align-1) != 0 {
		return 0
	}
	return int64(at) - int64((data.Memsz+align-1)&^(align-1))
}

// threadLocal returns the offset of a variable in the file's thread-local data.
func (im *Image) threadLocal(name string) (offset uint64, ok bool) {
	for _, sec := range im.ELF.Sections {
		if sec.Type != elf.SHT_SYMTAB || int(sec.Link) >= len(im.ELF.Sections) {
			continue
		}
		table, err := im.ReadSection(sec)
		if err != nil {
			return 0, false
		}
		text, err := im.ReadSection(im.ELF.Sections[sec.Link])
		if err != nil {
			return 0, false
		}
		for ; len(table) >= elf.Sym64Size; table = table[elf.Sym64Size:] {
			at := uint64(binary.LittleEndian.Uint32(table))
			end := at + uint64(len(name))
			if elf.ST_TYPE(table[4]) == elf.STT_TLS && end < uint64(len(text)) && string(text[at:end]) == name && text[end] == 0 {
				return binary.LittleEndian.Uint64(table[8:]), true
			}
		}
	}
	return 0, false
}
