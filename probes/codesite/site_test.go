package codesite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

// caller is a program that calls the function `probed` 100 times, after a byte
// on its standard input, and checks that it returns 42 and preserves the
// registers that it must.
const caller = `
	.text
	.globl main
	.type main, @function
main:
	push %%rbx
	push %%r12
	sub $24, %%rsp
	xor %%edi, %%edi
	mov %%rsp, %%rsi
	mov $1, %%edx
	call read
	mov $100, %%r12d
1:	mov $41, %%edi
	mov %%rsp, %%rbx
	call probed
	cmp $42, %%eax
	jne 2f
	cmp %%rsp, %%rbx
	jne 2f
	dec %%r12d
	jnz 1b
	xor %%eax, %%eax
	jmp 3f
2:	mov $1, %%eax
3:	add $24, %%rsp
	pop %%r12
	pop %%rbx
	ret
	.size main, .-main
	.globl probed
	.type probed, @function
probed:
	%s
	lea 1(%%rdi), %%eax
	ret
	.size probed, .-probed
	.section .note.GNU-stack,"",@progbits
`

// The kernel must count every call at the chosen sites, without any effect on
// the program. Refusals have a reason.
func TestEntrySiteIsCountedByTheKernel(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, test := range []struct{ entry, want string }{
		{"push %rbp; pop %rbp", Emulated},
		{"push %r12; pop %r12", Emulated},
		{"nop", Emulated},
		{"call 1f; 1: pop %rax", Emulated},
		{"jmp 1f; 1:", Emulated},
		{"jne 1f; 1:", Emulated},
		{".byte 0x0f, 0x1f, 0x44, 0, 0", Nop},
		{"endbr64", Stepped},
		{"sub $8, %rsp; add $8, %rsp", Stepped},
		{"lea 8(%rdi), %rax", Stepped},
		{"mov probed(%rip), %rax", Stepped},
		{"vaddps %xmm0, %xmm1, %xmm2", Stepped},
		{"lfence", Stepped},
		{"lock addl $0, (%rsp)", "begins with `lock add dword ptr [rsp], 0x0`, which has a lock prefix"},
		{".byte 0x2e, 0x90; push $1; pop %rax", Stepped}, // the second instruction
		{"lock addl $0, (%rsp); nop", "which has a lock prefix"},
		{"vzeroupper", "which the kernel treats as a jump"},
		{"vmovdqa %xmm0, %xmm1", "which the kernel refuses to step"},
		{"mov $39, %eax; syscall", Stepped},
		{"syscall", "which the kernel refuses to step"},
		{"pushf; popf", "which pushes the flags"},
		{"sub $1, %esi; cmp $-1000, %esi; jge probed", "begins with a loop"},
		{"and $1, %esi; lea 5f(%rip), %rax; movslq (%rax,%rsi,4), %rsi; add %rax, %rsi; jmp *%rsi; .section .rodata; 5: .long 6f-5b, probed-5b, 0; .text; 6:", "begins with a loop"},
		{"and $1, %esi; jmp *5f(,%rsi,8); .section .rodata; 5: .quad 6f, probed, 0; .text; 6:", "begins with a loop"},
		{"and $0, %esi; jmp *5f(,%rsi,8); .section .rodata; 5: .quad 6f, main; .text; 6:", Stepped},
	} {
		t.Run(test.entry, func(t *testing.T) {
			path := testenv.CompileText(t, ".S", fmt.Sprintf(caller, strings.ReplaceAll(test.entry, ";", "\n\t")), "-no-pie")
			m := moduleAt(t, path)
			site, err := In(m).EntrySite(indexOf(t, m, "probed"))
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("refused: it %v", err)
				}
				return
			}
			if site.Method != test.want || site.PastEntry != strings.HasPrefix(test.entry, ".byte 0x2e") {
				t.Errorf("site %+v, want %s", site, test.want)
			}
			text, err := os.ReadFile(path)
			if err != nil || !bytes.HasPrefix(text[site.Offset:], site.Bytes) || len(site.Bytes) == 0 {
				t.Errorf("bytes % x are not those of the file", site.Bytes)
			}
			if hits := countRun(t, path, site.Offset); hits != 100 {
				t.Errorf("the kernel counted %d of 100 calls at `%s`", hits, site.Insn())
			}
		})
	}
}

// countRun runs a program that waits for a byte, with a uprobe at offset.
func countRun(t *testing.T, path string, offset uint64) uint64 {
	t.Helper()
	cmd := exec.Command(path)
	var output bytes.Buffer
	cmd.Stderr = &output
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hits, err := countAt(t, path, offset)
	in.Write([]byte("\n"))
	in.Close()
	if failed := cmd.Wait(); failed != nil {
		t.Errorf("the probed program fails: %v\n%s", failed, output.Bytes())
	}
	if err != nil {
		t.Fatalf("the kernel refuses the site: %v", err)
	}
	return hits()
}

// objdump disassembles the sites of a real program independently.
func TestSitesAgreeWithObjdump(t *testing.T) {
	testenv.Long(t)
	path := testenv.NeedProgram(t, "redis-server")
	mnemonic := map[string]string{} // by address in hex
	for line := range strings.Lines(testenv.Output(t, "objdump", "-d", "-w", "-Mintel", "--no-show-raw-insn", path)) {
		if addr, rest, ok := strings.Cut(strings.TrimSpace(line), ":\t"); ok {
			mnemonic[addr] = strings.TrimSpace(rest)
		}
	}
	m := moduleAt(t, path)
	sites := map[string]int{}
	for i, f := range m.All() {
		site, err := In(m).EntrySite(i)
		if err != nil {
			t.Logf("%s %v", f.Name, err)
			continue
		}
		sites[site.Method]++
		is := mnemonic[fmt.Sprintf("%x", site.Addr)]
		emulated := (strings.HasPrefix(is, "push ") || strings.HasPrefix(is, "call") || is == "nop" || strings.HasPrefix(is, "j")) && !strings.Contains(is, "PTR")
		if is == "" || emulated != (site.Method == Emulated) {
			t.Errorf("%s: `%s` is %s, objdump has %q at %#x", f.Name, site.Insn(), site.Method, is, site.Addr)
		}
	}
	if sites[Emulated] < 1000 || sites[Stepped] < 1000 {
		t.Errorf("sites by method: %v", sites)
	}
}

func TestIndirectFunctionIsRefusedWithItsVariants(t *testing.T) {
	path := testenv.CompileText(t, ".c", `
		__attribute__((noinline)) int __twice_sse2(int x) { return x + x; }
		__attribute__((noinline)) int __twice_avx2(int x) { return 2 * x; }
		static int (*choose(void))(int) { return __twice_avx2; }
		int twice(int) __attribute__((ifunc("choose")));
		int main(int argc, char **argv) { return twice(argc); }`, "-O1", "-no-pie")
	m := moduleAt(t, path)
	i := indexOf(t, m, "twice")
	if !m.IFunc(i) || m.IFunc(indexOf(t, m, "main")) {
		t.Error("twice is an IFUNC, main is none")
	}
	_, err := In(m).EntrySite(i)
	if err == nil || !strings.Contains(err.Error(), "indirect function") ||
		!strings.Contains(err.Error(), "__twice_sse2") || !strings.Contains(err.Error(), "__twice_avx2") {
		t.Errorf("EntrySite: %v", err)
	}
}

func TestWritableTextIsRefused(t *testing.T) {
	path := testenv.CompileText(t, ".c", "void _start(void) { for (;;); }", "-nostdlib", "-static", "-Wl,--omagic")
	m := moduleAt(t, path)
	if _, err := In(m).EntrySite(indexOf(t, m, "_start")); err == nil || !strings.Contains(err.Error(), "writable segment") {
		t.Errorf("EntrySite: %v", err)
	}
}

func TestEntrySiteOfNoFunction(t *testing.T) {
	m := moduleAt(t, testenv.CompileText(t, ".c", "int main(void) { return 0; }"))
	for _, i := range []int{-1, m.Len()} {
		if _, err := In(m).EntrySite(i); err == nil {
			t.Errorf("EntrySite(%d) is no error", i)
		}
		if ok, reason := In(m).ReturnTrap(i); ok || reason == "" {
			t.Errorf("ReturnTrap(%d) = %v, %q", i, ok, reason)
		}
	}
}
