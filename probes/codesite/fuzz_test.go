package codesite

import (
	stdelf "debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
	"endoscope/probes/unwind"
)

// exercise opens damaged content as a file and calls everything. Nothing may
// panic, and returned sites must lie in the file.
func exercise(t testing.TB, content []byte) {
	fd, err := unix.MemfdCreate("damaged", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "damaged")
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	m, err := elf.Open(f, "damaged")
	if err != nil {
		return
	}
	defer m.Close()
	var fns []elf.Function
	for _, f := range m.All() {
		fns = append(fns, f)
	}
	classes := m.Classes()
	classes.Named("")
	for _, s := range m.Image().Load {
		for at := s.Start; at < min(s.End, s.Start+1<<12); at += 8 {
			classes.At(at)
		}
	}
	for i := range fns {
		if i > 0 && fns[i].Addr <= fns[i-1].Addr {
			t.Fatalf("functions %d and %d are not in order", i-1, i)
		}
		if i%(1+len(fns)/64) != 0 { // each place is found by decoding its function from its beginning
			continue
		}
		site, err := In(m).EntrySite(i)
		if err == nil && (site.Offset >= uint64(len(content)) || len(site.Bytes) == 0) {
			t.Fatalf("site %+v lies outside of the file", site)
		}
		In(m).EntrySiteFor(i, Need{})
		exits, _ := In(m).ExitSites(i)
		for _, s := range exits {
			if s.Offset >= uint64(len(content)) || len(s.Bytes) == 0 {
				t.Fatalf("exit site %+v lies outside of the file", s)
			}
		}
		for distance := range min(m.Extent(i), 20) {
			place, _, err := In(m).PlaceAt(fns[i].Addr+distance, distance%2 == 0)
			if err == nil && (place.Offset >= uint64(len(content)) || len(place.Bytes) == 0) {
				t.Fatalf("place %+v lies outside of the file", place)
			}
		}
		In(m).ReturnTrap(i)
		addr, offset := m.Entry(i)
		m.AddrOf(offset)
		m.FunctionAt(addr)
		m.Piece(addr)
		if rule, ok := m.UnwindRule(addr); ok && rule.CFAReg >= unwind.Registers {
			t.Errorf("a rule has the frame in register %d", rule.CFAReg)
		}
		m.IFunc(i)
		m.Calls(addr, nil, true)
	}
	m.Find("main")
	m.Nearest("mian", 3)
}

// small is a program of a few kilobytes with every table that is read.
func small(t testing.TB) []byte {
	b, err := os.ReadFile(testenv.CompileText(t, ".c", `
		static int helper(int x) { return x + 1; }
		int _ZN4shop3addEi(int x) { return helper(x); }
		void _start(void) { for (;;) _ZN4shop3addEi(1); }`,
		"-nostdlib", "-static-pie", "-O1", "-fno-inline", "-Wl,--build-id", "-Wl,-z,noseparate-code"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add(small(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) <= 1<<20 {
			exercise(t, content)
		}
	})
}

// Few bytes of a file control parsing: change one to eight of them at a time,
// with values that overflow.
func TestDamagedFiles(t *testing.T) {
	original := small(t)
	random := rand.New(rand.NewPCG(1, 2))
	spots := spotsOf(t, original)
	for range testenv.Times(3000) {
		exercise(t, damage(random, original, spots))
	}
	for range 100 { // cut short
		exercise(t, original[:random.IntN(len(original))])
	}
}

func TestDamagedGoFiles(t *testing.T) {
	testenv.Long(t)
	path := testenv.CompileGoText(t, "package main\n\nfunc main() { println(1) }\n", "-ldflags=-s -w")
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	spots := spotsOf(t, original)
	if s := moduleAt(t, path).Image().ELF.Section(".gopclntab"); s != nil {
		for at := s.Offset; at < s.Offset+8+8*8; at++ {
			spots = append(spots, int(at), int(at)) // the header, more often
		}
	}
	for range 60 {
		exercise(t, damage(random, original, spots))
	}
}

// spotsOf returns the offsets of headers and of the tables that are read.
func spotsOf(t testing.TB, content []byte) (spots []int) {
	le := binary.LittleEndian
	within := func(start, n uint64) {
		for at := start; at < min(start+n, uint64(len(content))); at++ {
			spots = append(spots, int(at))
		}
	}
	within(0, 64)
	within(le.Uint64(content[32:]), 56*uint64(le.Uint16(content[56:])))
	sections := le.Uint64(content[40:])
	within(sections, 64*uint64(le.Uint16(content[60:])))
	for i := range uint64(le.Uint16(content[60:])) {
		header := content[sections+64*i:]
		switch stdelf.SectionType(le.Uint32(header[4:])) {
		case stdelf.SHT_SYMTAB, stdelf.SHT_DYNSYM, stdelf.SHT_NOTE, stdelf.SHT_PROGBITS, stdelf.SHT_STRTAB, 0x70000001: // the last: SHT_X86_64_UNWIND
			within(le.Uint64(header[24:]), min(le.Uint64(header[32:]), 2048))
		}
	}
	return spots
}

func damage(random *rand.Rand, original []byte, spots []int) []byte {
	b := append([]byte(nil), original...)
	for range 1 + random.IntN(8) {
		at := spots[random.IntN(len(spots))]
		switch random.IntN(4) {
		case 0:
			b[at] = 0xff
		case 1:
			b[at] = 0
		case 2:
			b[at] ^= 1 << random.IntN(8)
		case 3:
			for i := at; i < min(at+8, len(b)); i++ {
				b[i] = 0xff
			}
		}
	}
	return b
}
