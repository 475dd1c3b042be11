package codesite

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// switching are switches written by hand, and functions that load the stack
// pointer without switching. Each function's name is that of its way.
const switching = `
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#define FN __attribute__((noinline, noclone))
#define ASM(name, text) void name(void); __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" text "\n.size " #name ",.-" #name "\n");
#define CFI(text) ".cfi_startproc\n" text "\n.cfi_endproc"

/* Registers are saved on the stack, its pointer in a structure. */
ASM(pushes, CFI("push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\nmov %rsp,(%rdi)\nmov %rsi,%rsp\npop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\nret"))
/* libco: both pointers are in structures. What is stored may be what is loaded. */
ASM(structures, "mov %rsp,(%rsi)\nmov (%rdi),%rsp\npop %rax\nmov %rbp,8(%rsi)\nmov 8(%rdi),%rbp\njmp *%rax")
/* Boost, jump_fcontext: the old pointer is passed to the new context. */
ASM(boost, CFI("lea -0x40(%rsp),%rsp\nstmxcsr (%rsp)\nfnstcw 4(%rsp)\nmov %r12,8(%rsp)\nmov %r13,0x10(%rsp)\nmov %rbp,0x38(%rsp)\nmov %rsp,%rax\nmov %rdi,%rsp\nmov 0x40(%rsp),%r8\nldmxcsr (%rsp)\nmov 8(%rsp),%r12\nlea 0x48(%rsp),%rsp\nmov %rsi,%rdx\njmp *%r8"))
/* What is stored is not what the stack pointer is at the switch. */
ASM(leaves_one, CFI("push %rbx\nmov %rsp,%rax\nmov %rax,(%rdi)\npush %rcx\nmov %rsi,%rsp\npop %rbx\nret"))
/* Only loads: getcontext and setcontext in one's own words. */
ASM(loads, "mov 0x10(%rdi),%rbx\nmov 0x58(%rdi),%rsp\npush 0x50(%rdi)\nret")
ASM(exchanges, "push %rbp\nxchg %rsp,%rdi\nmov %rdi,%rax\npop %rbp\nret")
ASM(exchanges_memory, "push %rbp\nxchg %rsp,(%rdi)\npop %rbp\nret")
ASM(exchanges_rax, "mov (%rdi),%rax\npush %rbp\nxchg %rax,%rsp\npop %rbp\nret")
ASM(pops, "mov %rsp,(%rsi)\npush %rdi\npop %rsp\npop %rbx\nret")
/* The pushes may be skipped: the site cannot be one of them. */
/* The C library: a system call comes before the switch, and has to succeed. */
ASM(checks, CFI("mov %rsp,(%rdi)\nmov %rsi,%r12\nmov $39,%eax\nsyscall\ncmp $-4095,%rax\njae 1f\nmov %r12,%rdx\nldmxcsr 0x20(%rdx)\nmov 8(%rdx),%rsp\nret\n1: ret"))
ASM(skips, CFI("test %rdx,%rdx\nje 1f\npush %rbx\n1: mov %rsp,(%rdi)\nmov %rsi,%rsp\npop %rbx\nret"))
/* With the frame described, in the middle of a C function. */
FN void inlined(void **from, void *to)
{
	__asm__ volatile("lea 1f(%%rip),%%rax\npush %%rax\nmov %%rsp,(%0)\nmov %1,%%rsp\nret\n1:" :: "D"(from), "S"(to)
		: "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
}

/* None of these is a switch. */
ASM(aligns, "mov %rsp,%r10\nand $-64,%rsp\nsub $128,%rsp\nmov %r10,(%rsp)\nmov (%rsp),%rsp\nret")
ASM(aligns_by_pop, "push %rsp\npush (%rsp)\nand $-16,%rsp\npop %rax\npop %rsp\nret")
ASM(restores, "push %rbx\nmov %rsp,%rbx\nsub $256,%rsp\ncall aligns\nmov %rbx,%rsp\npop %rbx\nret")
ASM(twice, CFI("xchg %rsp,%r15\n.cfi_def_cfa_register %r15\nnop\nxchg %rsp,%r15\n.cfi_def_cfa_register %rsp\nret"))
ASM(longjmp_, "ret")
__asm__(".globl longjmp\n.type longjmp,@function\nlongjmp: mov 48(%rdi),%rsp\njmp *56(%rdi)\n.size longjmp,.-longjmp\n");
FN long vla(long n) { long sum = 0; for (long i = 1; i < n; i++) { char room[i]; memset(room, 1, i); __asm__ volatile("" :: "r"(room) : "memory"); sum += room[i / 2]; } return sum; }
FN long allocates(long n) { char *p = alloca(n); memset(p, 1, n); __asm__ volatile("" :: "r"(p) : "memory"); return p[n / 2]; }
FN long aligned(long n) { char room[256] __attribute__((aligned(128))); memset(room, n, 256); __asm__ volatile("" :: "r"(room) : "memory"); return room[n]; }
int main(int argc, char **argv) { (void)argv; return vla(argc) + allocates(argc) + aligned(argc); }
`

func TestSwitches(t *testing.T) {
	want := map[string]Switch{
		"pushes":           {Register: regRSI, Down: -8, Saves: true},
		"structures":       {Register: regRDI, Memory: true, Saves: true},
		"boost":            {Register: regRDI, Saves: true},
		"loads":            {Register: regRDI, Memory: true, Disp: 0x58, Saved: 8},
		"exchanges":        {Register: regRDI, Down: -8, Saves: true},
		"exchanges_memory": {Register: regRDI, Memory: true, Down: -8, Saves: true},
		"exchanges_rax":    {Register: regRAX, Down: -8, Saves: true},
		"pops":             {Register: regRSP, Memory: true, Saved: 8, Saves: true},
		"checks":           {Register: 12, Memory: true, Disp: 8, IfCarry: true, Saves: true},
		"leaves_one":       {Register: regRSI, Down: -8, Saved: 8, Saves: true},
		"skips":            {Register: regRSI, Saves: true},
		"inlined":          {Register: regRSI, Down: -8, Saves: true},
	}
	for _, flags := range [][]string{{"-O0", "-fomit-frame-pointer"}, {"-O1"}, {"-O2", "-fcf-protection", "-static"}, {"-O3", "-no-pie"}} {
		m := moduleAt(t, testenv.CompileCText(t, switching, flags...))
		got := map[string]Switch{}
		for _, s := range In(m).Switches() {
			if strings.Contains(s.Function, "context") {
				continue // of the C library
			}
			if _, again := got[s.Function]; again {
				t.Errorf("%v: %s switches twice", flags, s.Function)
			}
			if cheap := s.Down != 0 || s.IfCarry; (s.Site.Method == Emulated) != cheap {
				t.Errorf("%v: %s: %s is %s", flags, s.Function, s.Site.Insn(), s.Site.Method)
			}
			got[s.Function] = Switch{Register: s.Register, Memory: s.Memory, Disp: s.Disp, Down: s.Down, IfCarry: s.IfCarry, Saved: s.Saved, Saves: s.Saves}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: %s", flags, diff)
		}
	}
}

// The C library switches in two functions; its longjmp, its dynamic linker and
// GCC's unwinder switch nowhere. Exceptions linked statically change nothing.
func TestSwitchesOfLibraries(t *testing.T) {
	testenv.NeedProgram(t, "gcc")
	paths := map[string]string{"static C++": testenv.CompileText(t, ".cc",
		"#include <stdexcept>\n#include <string>\nint main(int argc, char **) { try { if (argc) throw std::runtime_error(\"x\"); } catch (std::exception &e) { return std::string(e.what()).size(); } }", "-static")}
	for _, name := range []string{"libc.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"} {
		path, err := exec.Command("gcc", "-print-file-name="+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		paths[name] = strings.TrimSpace(string(path))
	}
	for name, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			testenv.Skip(t, "%v", err)
		}
		defer f.Close()
		m, err := elf.Open(f, name)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		got := map[string]bool{}
		for _, s := range In(m).Switches() {
			// The offset of the stack pointer in ucontext_t (oRSP).
			if !s.Memory || s.Disp != 160 || (s.Site.Method == Emulated) != s.IfCarry {
				t.Errorf("%s: %s: %s", name, s.Function, s.Site.Insn())
			}
			if s.Saved != 8 {
				t.Errorf("%s: %s stores %+d", name, s.Function, s.Saved)
			}
			got[s.Function] = s.Saves
		}
		want := map[string]bool{}
		if name == "libc.so.6" {
			want = map[string]bool{"swapcontext": true, "setcontext": false}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
