package codesite

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// Instructions begin where objdump says that they do, in programs and in libraries with
// hand-written code; no other address is accepted.
func TestPlacesAreInstructions(t *testing.T) {
	objdump := testenv.NeedProgram(t, "objdump")
	files := []string{
		testenv.CompileCText(t, "int main(int c, char **v) { switch (c) { case 1: return 3; case 2: return 9; case 3: return v[0][0]; case 4: return 7; case 5: __builtin_trap(); default: return c * 5; } }", "-O2"),
	}
	for _, path := range []string{"/lib/x86_64-linux-gnu/libz.so.1", "/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib64/libz.so.1"} {
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	insn := regexp.MustCompile(`(?m)^ *([0-9a-f]+):\t`)
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var cache elf.Cache
		m, err := cache.Open(f, path)
		if err != nil {
			t.Fatal(err)
		}
		begins := map[uint64]bool{}
		for _, line := range insn.FindAllStringSubmatch(testenv.Output(t, objdump, "-d", "--no-show-raw-insn", path), -1) {
			at, _ := strconv.ParseUint(line[1], 16, 64)
			begins[at] = true
		}
		code := In(m)
		accepted, within := 0, 0
		for i := range code.Entries() {
			e := &code.Entries()[i]
			for at := e.Addr; at < e.Addr+min(code.Extent(i), 300) && accepted < 4_000; at++ {
				site, start, err := code.PlaceAt(at, false)
				var between *Between
				switch {
				case err == nil && !begins[at]:
					t.Errorf("%s: %#x (from %#x) is accepted, where no instruction begins", path, at, start)
				case err == nil && (site.Addr != at || code.OffsetOf(at) != site.Offset):
					t.Errorf("%s: %#x: site %+v", path, at, site)
				case err == nil:
					accepted++
				case errors.As(err, &between):
					within++
					if begins[at] || !begins[between.Begin] || between.Begin >= at || at >= between.Next {
						t.Errorf("%s: %#x: %v (%+v)", path, at, err, between)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
		if accepted < 10 || within < accepted {
			t.Errorf("%s: %d addresses are instructions, %d lie within some", path, accepted, within)
		}
		m.Close()
		cache.Close()
	}
}

// Data between instructions is not taken for code, nor what follows it for instructions that
// begin elsewhere.
func TestDataIsNoPlace(t *testing.T) {
	f, err := os.Open(testenv.CompileCText(t, `
asm(".type tabled,@function\n.globl tabled\ntabled: jmp 1f\n .byte 0x90, 0x90, 0x90\n1: nop\n ret\n .size tabled, .-tabled\n"
	".type mixed,@function\n.globl mixed\nmixed: jmp 1f\n .byte 0x90, 0x90, 0x48\n1: ret\n .size mixed, .-mixed\n"
	".type unsized,@function\n.globl unsized\nunsized: push %rax\n pop %rax\n ret\n"
	".type prefixed,@function\n.globl prefixed\nprefixed: je 1f\n .byte 0xf0\n1: incl (%rdi)\n ret\n .size prefixed, .-prefixed\n");
int main(void) { return 0; }`, "-O1", "-fno-asynchronous-unwind-tables"))
	if err != nil {
		t.Fatal(err)
	}
	var cache elf.Cache
	defer cache.Close()
	m, err := cache.Open(f, "target")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct {
		name     string
		distance uint64
		known    bool
		want     error
	}{
		{"tabled", 0, false, nil}, {"tabled", 2, false, errUnreached}, {"tabled", 4, false, errUnreached}, {"tabled", 2, true, nil}, {"tabled", 5, false, nil}, {"tabled", 6, false, nil},
		{"mixed", 0, false, errMixed}, {"mixed", 2, true, errMixed}, {"mixed", 5, false, errMixed},
		{"unsized", 0, false, nil}, {"unsized", 1, true, errNoFunction},
		{"prefixed", 0, false, errMixed}, {"prefixed", 3, true, errMixed},
	} {
		entry, _ := m.Entry(m.Find(c.name)[0])
		if _, _, err := In(m).PlaceAt(entry+c.distance, c.known); err != c.want {
			t.Errorf("%s+%d: %v, want %v", c.name, c.distance, err, c.want)
		}
	}
}

// An instruction of a restartable sequence is refused, in programs that are relocated and in
// others.
func TestRestartableSequencesAreNoPlaces(t *testing.T) {
	for _, flags := range [][]string{{"-pie", "-fPIE"}, {"-no-pie"}} {
		f, err := os.Open(testenv.CompileCText(t, `
asm(".type update,@function\n.globl update\nupdate: push %rax\n1: pop %rax\n incl (%rdi)\n2: nop\n ret\n3: ret\n .size update, .-update\n"
	".pushsection __rseq_cs, \"aw\"\n.balign 32\n.long 0, 0\n.quad 1b, 2b - 1b, 3b\n.popsection\n");
int main(void) { return 0; }`, flags...))
		if err != nil {
			t.Fatal(err)
		}
		var cache elf.Cache
		m, err := cache.Open(f, "target")
		if err != nil {
			t.Fatal(err)
		}
		entry, _ := m.Entry(m.Find("update")[0])
		for distance, want := range map[uint64]error{0: nil, 1: errRestarted, 2: errRestarted, 5: nil} {
			if _, _, err := In(m).PlaceAt(entry+distance, false); err != want {
				t.Errorf("%v: update+%d: %v, want %v", flags, distance, err, want)
			}
		}
		m.Close()
		cache.Close()
	}
}
