package elf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"endoscope/probes/testenv"
)

// largeFile creates an executable of about 100 MB that does nothing: functions
// of 128 bytes, with names such as a C++ program's, and the tables of their
// names.
func largeFile(t testing.TB, functions int) string {
	const (
		base, page = 0x400000, 4096
		size       = 128
	)
	text := uint64(functions * size)
	var symbols, names bytes.Buffer
	symbols.Write(make([]byte, elf.Sym64Size))
	names.WriteByte(0)
	for i := range functions {
		binary.Write(&symbols, binary.LittleEndian, elf.Sym64{
			Name: uint32(names.Len()), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: 1,
			Value: base + uint64(i)*size, Size: size,
		})
		names.WriteString(largeName(i))
		names.WriteByte(0)
	}
	sections := "\x00.text\x00.symtab\x00.strtab\x00"
	symbolsAt := page + text
	namesAt := symbolsAt + uint64(symbols.Len())
	sectionsAt := namesAt + uint64(names.Len())
	headersAt := sectionsAt + uint64(len(sections))
	section := func(name uint32, kind elf.SectionType, flags elf.SectionFlag, addr, offset, size uint64, link uint32, entry uint64) elf.Section64 {
		return elf.Section64{Name: name, Type: uint32(kind), Flags: uint64(flags), Addr: addr, Off: offset, Size: size, Link: link, Addralign: 1, Entsize: entry}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(offset uint64, what ...any) {
		var b bytes.Buffer
		for _, x := range what {
			binary.Write(&b, binary.LittleEndian, x)
		}
		if _, err := file.WriteAt(b.Bytes(), int64(offset)); err != nil {
			t.Fatal(err)
		}
	}
	write(0, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Entry: base,
		Phoff: 64, Shoff: headersAt, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 5, Shstrndx: 4,
	}, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: page, Vaddr: base, Paddr: base, Filesz: text, Memsz: text, Align: page})
	write(page, []byte{0x55, 0x5d, 0xc3}) // push %rbp; pop %rbp; ret: the rest is a hole of zeros
	write(symbolsAt, symbols.Bytes())
	write(namesAt, names.Bytes())
	write(sectionsAt, []byte(sections))
	write(headersAt, elf.Section64{},
		section(1, elf.SHT_PROGBITS, elf.SHF_ALLOC|elf.SHF_EXECINSTR, base, page, text, 0, 0),
		section(7, elf.SHT_SYMTAB, 0, 0, symbolsAt, uint64(symbols.Len()), 3, elf.Sym64Size),
		section(15, elf.SHT_STRTAB, 0, 0, namesAt, uint64(names.Len()), 0, 0),
		section(1, elf.SHT_STRTAB, 0, 0, sectionsAt, uint64(len(sections)), 0, 0))
	return file.Name()
}

func largeName(i int) string {
	return fmt.Sprintf("_ZN8database7storage6engine9Namespace15Function%07dEPKNS_7ContextE", i)
}

// The memory held for a large program grows with the number of its functions,
// not with its names.
func TestLargeModuleIsNotHeld(t *testing.T) {
	testenv.Long(t)
	const functions = 450_000
	path := largeFile(t, functions)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	before := liveBytes()
	m := openModule(t, path)
	i := only(t, m, largeName(functions/2))
	f := m.Function(i)
	if f.Class != "database::storage::engine::Namespace" || only(t, m, f.Name) != i || f.Lang != CPP {
		t.Errorf("function %d is %+v", i, f)
	}
	if code := codeOf(t, m, only(t, m, largeName(0))); code[0] != 0x55 {
		t.Errorf("the first function begins with % x, not with push rbp", code)
	}
	held := int64(liveBytes()) - int64(before)
	runtime.KeepAlive(m)
	t.Logf("a file of %d MB with %d functions: %.1f MB are held", st.Size()>>20, m.Len(), float64(held)/1e6)
	if most := int64(60 * functions); held > most {
		t.Errorf("%d bytes are held of %d functions, want at most %d", held, functions, most)
	}
}

// liveBytes returns the bytes reachable in the heap.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC() // a second time, for what finalizers and pools have released
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
