package elf

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
	"endoscope/probes/unwind"
)

// fuzzMemory is what reading a file of n bytes may allocate: no number in a file makes
// memory of its own.
func fuzzMemory(n int) uint64 { return 32<<20 + 200*uint64(n) }

// bounded fails the test if f allocates more than fuzzMemory of n bytes.
func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > fuzzMemory(n) {
		t.Errorf("a file of %d bytes: %d were allocated", n, got)
	}
}

// exercise reads everything of a module.
func exercise(t *testing.T, m *Module) {
	names := 0
	for i, f := range m.All() {
		names += len(f.Name)
		if i > 0 && f.Addr <= m.functions[i-1].Addr {
			t.Fatalf("functions %d and %d are not in order", i-1, i)
		}
		if i > 200 {
			continue
		}
		m.Calls(f.Addr, nil, true)
		m.Piece(f.Addr)
		m.UnwindRule(f.Addr)
		m.Native(i)
		m.IFunc(i)
		m.Extent(i)
		m.GoDepth(f.Addr, f.Addr+1)
		m.image.Code(f.Addr, f.Size)
	}
	m.Find("main")
	m.Nearest("mian", 3)
	m.Imports()
	m.GoidOffset()
	m.GoSlot()
	m.Stripped()
	m.Classes().Named("")
	m.Hold()()
	m.DebugInfo()
}

// FuzzFile opens any file.
func FuzzFile(f *testing.F) {
	for _, flags := range [][]string{{"-nostdlib", "-static-pie", "-O1", "-Wl,--build-id", "-Wl,-z,noseparate-code", "-g"}} {
		b, err := os.ReadFile(testenv.CompileText(f, ".c", "int f(void) { return 1; } void _start(void) { for (;;) f(); }", flags...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<18 {
			return
		}
		fd, err := unix.MemfdCreate("fuzzed", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), "fuzzed")
		defer file.Close()
		if _, err := file.Write(content); err != nil {
			t.Fatal(err)
		}
		bounded(t, len(content), func() {
			m, err := Open(file, "fuzzed")
			if err != nil {
				if !strings.HasPrefix(err.Error(), "fuzzed: ") {
					t.Fatal(err)
				}
				return
			}
			defer m.Close()
			exercise(t, m)
		})
	})
}

// goTable returns a pclntab of two functions.
func goTable() []byte {
	le := binary.LittleEndian
	table := make([]byte, pcHeaderBytes)
	le.PutUint32(table, goMagic120)
	table[6], table[7] = 1, 8
	names := "\x00main.main\x00main.f\x00"
	for i, v := range []uint64{2, 0, 0x1000, pcHeaderBytes, pcHeaderBytes + uint64(len(names)), 0, 0, pcHeaderBytes + uint64(len(names))} {
		le.PutUint64(table[8+8*i:], v)
	}
	table = append(table, names...)
	var functions []byte
	for _, v := range []uint32{0, 24, 0x10, 40, 0x20, 0, 0, 1, 0, 0, 0x10, 11, 0, 0, 0, 0} {
		functions = le.AppendUint32(functions, v)
	}
	return append(table, functions...)
}

// goModule returns a module with a function table.
func goModule(table []byte) (*Module, error) {
	sec := &elf.Section{SectionHeader: elf.SectionHeader{Name: ".gopclntab", Type: elf.SHT_PROGBITS, Addr: 0x8000, Size: uint64(len(table)), FileSize: uint64(len(table))}}
	im := &Image{Reader: cutReader{strings.NewReader(string(table))}, Size: int64(len(table)), ELF: &elf.File{Sections: []*elf.Section{sec}}}
	im.Load = []segment{{Span: Span{0x1000, 0x1000 + uint64(len(table))}}}
	im.Exec = im.Load
	c := &contents{image: im, unwind: &unwind.Table{}, hasGo: true}
	syms, err := c.readGo(sec, 0)
	if err != nil {
		return nil, err
	}
	c.collect(syms)
	return &Module{display: "fuzzed", contents: c, close: c.close}, nil
}

// FuzzGoTable lets a Go program's function table be any bytes.
func FuzzGoTable(f *testing.F) {
	m, err := goModule(goTable())
	if err != nil || m.Len() != 2 || m.Function(0).Name != "main.main" || m.Function(1).Name != "main.f" {
		f.Fatalf("the first seed is no table of two functions: %v", err)
	}
	f.Add(goTable())
	f.Add(goTable()[:pcHeaderBytes+3])
	f.Fuzz(func(t *testing.T, table []byte) {
		if len(table) > 1<<18 {
			return
		}
		bounded(t, len(table), func() {
			if m, err := goModule(table); err == nil {
				exercise(t, m)
			}
		})
	})
}

// TestSharedLongName: a symbol costs 24 bytes in a file, and its name, which it may share with
// others, up to maxName when it is read.
func TestSharedLongName(t *testing.T) {
	table := goTable()[:pcHeaderBytes]
	le := binary.LittleEndian
	const count = 1000
	name := strings.Repeat("x", maxName-1) + "\x00"
	le.PutUint64(table[8:], count)
	le.PutUint64(table[8+8*3:], pcHeaderBytes)
	le.PutUint64(table[8+8*7:], uint64(pcHeaderBytes+len(name)))
	table = append(table, name...)
	for i := range uint32(count) {
		table = le.AppendUint32(le.AppendUint32(table, i), 8*count+8)
	}
	table = append(table, make([]byte, 1024)...)
	m, err := goModule(table)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, f := range m.All() {
		total += len(f.Name)
	}
	if total == 0 || total > 5*len(table) {
		t.Errorf("a file of %d bytes has names of %d", len(table), total)
	}
}
