package codesite

import (
	"errors"
	"os"
	"strconv"
	"strings"
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
	for _, path := range testenv.Few(1, files) {
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
		for line := range strings.Lines(testenv.Output(t, objdump, "-d", "--no-show-raw-insn", path)) { // millions
			if address, _, found := strings.Cut(line, ":\t"); found {
				if at, err := strconv.ParseUint(strings.TrimLeft(address, " "), 16, 64); err == nil {
					begins[at] = true
				}
			}
		}
		code := In(m)
		accepted, within := 0, 0
		for i := range code.Entries() {
			e := &code.Entries()[i]
			for at := e.Addr; at < e.Addr+min(code.Extent(i), 300) && accepted < 1_000; at++ {
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
	".type switched,@function\n.globl switched\nswitched: lea 1f(%rip), %rax\n movzbl (%rax,%rdi), %edx\n add %rax, %rdx\n jmp *%rdx\n"
	"1: .byte 2f-1b, 3f-1b, 0x90, 0x90\n2: nop\n ret\n3: ret\n .size switched, .-switched\n"
	".type jumping,@function\n.globl jumping\njumping: lea 5f(%rip), %rax\n movslq (%rax,%rdi,4), %rdx\n add %rax, %rdx\n jmp *%rdx\n"
	" .byte 0x90, 0x90\n2: nop\n ret\n3: ret\n .size jumping, .-jumping\n.section .rodata\n.balign 4\n5: .long 2b-5b, 3b-5b, 0\n.text\n"
	".type far,@function\n.globl far\nfar: lea 5f(%rip), %rax\n jmp *(%rax,%rdi,8)\n .byte 0x90, 0x90\n2: nop\n ret\n .size far, .-far\n"
	".section .data.rel.ro,\"aw\"\n.balign 8\n5: .quad 2b, 0\n.text\n"
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
		{"switched", 14, false, nil}, {"switched", 16, false, errUnreached}, {"switched", 20, true, nil},
		{"jumping", 16, false, errUnreached}, {"jumping", 18, false, nil}, {"jumping", 19, false, nil}, {"jumping", 20, false, nil},
		{"far", 10, false, errUnreached}, {"far", 12, false, nil}, {"far", 13, false, nil},
		{"prefixed", 0, false, errMixed}, {"prefixed", 3, true, errMixed},
	} {
		entry, _ := m.Entry(m.Find(c.name)[0])
		if _, _, err := In(m).PlaceAt(entry+c.distance, c.known); err != c.want {
			t.Errorf("%s+%d: %v, want %v", c.name, c.distance, err, c.want)
		}
	}
}

// A nop with which a part begins that is not entered by a call is refused: what jumps there may
// keep data below the stack pointer.
func TestPartBeginsWithNop(t *testing.T) {
	f, err := os.Open(testenv.CompileCText(t, `
asm(".type leaf,@function\n.globl leaf\nleaf: .cfi_startproc\n movq $1, -8(%rsp)\n jmp 1f\n .cfi_endproc\n .size leaf, .-leaf\n .space 16, 0xcc\n"
	"1: .cfi_startproc\n .byte 0x0f, 0x1f, 0x44, 0, 0\n mov -8(%rsp), %rax\n ret\n .cfi_endproc\n");
int main(void) { return 0; }`, "-O1"))
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
	entry, _ := m.Entry(m.Find("leaf")[0])
	code, err := In(m).Image().Code(entry, 11)
	if err != nil {
		t.Fatal(err)
	}
	jump, err := decode(code[9:])
	part, ok := jump.target(entry + 9)
	if err != nil || !ok {
		t.Fatalf("% x: %v", code, err)
	}
	if _, start, err := In(m).PlaceAt(part, false); err == nil || !strings.Contains(err.Error(), "would replace by a call") {
		t.Errorf("%#x (from %#x): %v", part, start, err)
	}
	if _, _, err := In(m).PlaceAt(part+5, false); err != nil {
		t.Error(err)
	}
	// Without a name it is a function of its own, whose calls are counted behind the nop.
	i, ok := m.FunctionAt(part)
	if !ok {
		t.Fatalf("no function begins at %#x", part)
	}
	if s, err := In(m).EntrySite(i); err != nil || s.Method == Nop {
		t.Errorf("%s is probed at %+v, %v", m.Function(i).Name, s, err)
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
