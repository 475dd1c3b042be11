package codesite

import (
	"bytes"
	stdelf "debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// twoCallers calls `probed` and `extra` 100 times each, after a byte on its
// standard input. probed gets 41 and must return 42; the call returns to
// `back`. extra may enter probed elsewhere than at its entry.
const twoCallers = `
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
	mov $2, %%esi
	mov %%rsp, %%rbx
	call probed
	.globl back
back:	cmp $42, %%eax
	jne 2f
	cmp %%rsp, %%rbx
	jne 2f
	call extra
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
	%s
	.globl extra
	.type extra, @function
extra:
	%s
	ret
	.size extra, .-extra
	.section .note.GNU-stack,"",@progbits
`

// Each rule of EntrySiteFor has a program here on which the kernel's count, or
// what a probe reads, is wrong if the rule is violated.
func TestEntrySiteRules(t *testing.T) {
	const far = `.section .text.far,"ax",@progbits`
	everything := Need{Args: true, Return: true}
	for _, test := range []struct {
		name          string
		body          string
		where, extra  string
		need          Need
		want          string // the instruction
		method        string
		calls, offset int // hits per call, 1 if 0; SPOffset
	}{
		{name: "the end of the first block", body: "mov $1, %eax; test %edi, %edi; jne 1f; 1:", need: everything, want: "jn", method: Emulated},
		{name: "a call is no longer once", body: "mov $1, %eax; call extra; nop", want: "call", method: Emulated},
		{name: "loop behind the entry", body: "mov $3, %ecx; 1: dec %ecx; jne 1b", want: "mov ecx, 0x3", method: Stepped},
		{name: "far branch of another function", body: "mov $7, %eax; 9: nop", where: far, extra: "mov $41, %edi; jmp 9b", want: "mov eax, 0x7", method: Stepped},
		{name: "far conditional branch", body: "mov $7, %eax; 9: nop", where: far, extra: "mov $41, %edi; test %edi, %edi; jne 9b", want: "mov eax, 0x7", method: Stepped},
		{name: "short branch of the next function", body: "mov $7, %eax; 9: nop", extra: "mov $41, %edi; jmp 9b", want: "mov eax, 0x7", method: Stepped},
		{name: "call past the entry", body: "mov $7, %eax; 9: nop", extra: "mov $41, %edi; call 9b", want: "mov eax, 0x7", method: Stepped},
		{name: "branch behind the site", body: "mov $7, %eax; nop; 9:", where: far, extra: "mov $41, %edi; jmp 9b", need: everything, want: "nop", method: Emulated},
		{name: "bytes that look like a branch", body: "mov $7, %eax; 9: nop", where: far, extra: "movabs $0x11223300000000e9, %rax; jmp 1f; .long 0; 1:", need: everything, want: "nop", method: Emulated},
		{name: "jump table", body: "xor %ecx, %ecx; 9: nop; inc %ecx; lea 5f(%rip), %rax; cmp $3, %ecx; jae 7f; movslq (%rax), %rdx; add %rax, %rdx; jmp *%rdx; .section .rodata; 5: .long 9b-5b, 0; .text; 7:",
			want: "xor ecx, ecx", method: Stepped},
		{name: "label in data", body: "xor %eax, %eax; 9: nop", extra: "mov $41, %edi; jmp *8f(%rip); .section .data; .balign 8; 8: .quad 9b; .text", want: "xor eax, eax", method: Stepped},
		{name: "label in code", body: "xor %eax, %eax; 9: nop", extra: "mov $41, %edi; lea 9b(%rip), %rax; jmp *%rax", want: "xor eax, eax", method: Stepped},
		{name: "absolute label in code", body: "xor %eax, %eax; 9: nop", extra: "mov $41, %edi; mov $9b, %eax; jmp *%rax", want: "xor eax, eax", method: Stepped},
		{name: "symbol", body: "xor %eax, %eax; .globl inside; inside: nop", want: "xor eax, eax", method: Stepped},
		{name: "second function", body: "xor %eax, %eax; .type inside, @function; inside: nop", extra: "mov $41, %edi; call inside", want: "xor eax, eax", method: Stepped},

		{name: "argument overwritten", body: "mov %edi, %eax; mov $5, %edi; nop; mov %eax, %edi", need: Need{Args: true}, want: "mov eax, edi", method: Stepped},
		{name: "part of an argument overwritten", body: "mov %edi, %eax; mov $5, %dil; nop; mov %eax, %edi", need: Need{Args: true}, want: "mov eax, edi", method: Stepped},
		{name: "argument overwritten, only counted", body: "mov %edi, %eax; mov $5, %edi; nop; mov %eax, %edi", want: "nop", method: Emulated},
		{name: "argument overwritten by a division", body: "mov %edi, %eax; cltd; nop", need: Need{Args: true}, want: "mov eax, edi", method: Stepped},
		{name: "argument in place", body: "mov %edi, %eax; xor %r10d, %r10d; nop", need: everything, want: "nop", method: Emulated},
		{name: "memory written", body: "mov %rdi, -64(%rsp); nop", need: Need{Args: true}, want: "mov qword ptr [rsp-0x40], rdi", method: Stepped},
		{name: "memory written, only counted", body: "mov %rdi, -64(%rsp); nop", want: "nop", method: Emulated},
		{name: "repeated store", body: "mov %rdi, %rax; xor %ecx, %ecx; rep stosb; mov %rax, %rdi; nop", need: Need{Args: true}, want: "mov rax, rdi", method: Stepped},

		{name: "another argument overwritten", body: "mov %edi, %eax; mov $5, %esi; nop; mov $2, %esi", need: Need{Args: true, Only: 1}, want: "nop", method: Emulated},
		{name: "another argument overwritten, all read", body: "mov %edi, %eax; mov $5, %esi; nop; mov $2, %esi", need: Need{Args: true}, want: "mov eax, edi", method: Stepped},
		{name: "another argument overwritten, both read", body: "mov %edi, %eax; mov $5, %esi; nop; mov $2, %esi", need: Need{Args: true, Only: 3}, want: "mov eax, edi", method: Stepped},
		{name: "the argument overwritten", body: "mov %edi, %eax; mov $5, %edi; nop; mov %eax, %edi", need: Need{Args: true, Only: 1}, want: "mov eax, edi", method: Stepped},
		{name: "another argument overwritten by a division", body: "mov %edi, %eax; cltd; nop", need: Need{Args: true, Only: 1}, want: "nop", method: Emulated},
		{name: "memory written, values read", body: "mov %rdi, -64(%rsp); nop", need: Need{Args: true, Only: 1}, want: "nop", method: Emulated},
		{name: "unknown effect, values read", body: "mov %rdi, %rax; xor %ecx, %ecx; rep stosb; mov %rax, %rdi; nop", need: Need{Args: true, Only: 1}, want: "mov rax, rdi", method: Stepped},

		{name: "stack pointer moved", body: "sub $8, %rsp; nop; add $8, %rsp", need: Need{Return: true}, want: "sub rsp, 0x8", method: Stepped},
		{name: "stack pointer moved, arguments read", body: "sub $8, %rsp; nop; add $8, %rsp", need: Need{Args: true}, want: "nop", method: Emulated, offset: 8},
		{name: "stack pointer moved twice", body: "push $1; lea -16(%rsp), %rsp; nop; add $24, %rsp", want: "nop", method: Emulated, offset: 24},
		{name: "stack pointer lost", body: "mov %rsp, %rax; and $-64, %rsp; nop; mov %rax, %rsp", want: "mov rax, rsp", method: Stepped},
		{name: "push is before the move", body: "mov %edi, %eax; push %rbx; nop; pop %rbx", need: everything, want: "push rbx", method: Emulated},

		{name: "red zone", body: "mov %rdi, -8(%rsp); .byte 0x0f, 0x1f, 0x44, 0, 0; xor %edi, %edi; mov -8(%rsp), %rdi", want: "mov qword ptr [rsp-0x8], rdi", method: Stepped},
		{name: "nop5 behind endbr64", body: "endbr64; .byte 0x0f, 0x1f, 0x44, 0, 0; push %rbx; pop %rbx", need: everything, want: "nop dword ptr [rax+rax", method: Nop},
		{name: "endbr64", body: "endbr64; push %rbx; pop %rbx", need: everything, want: "push rbx", method: Emulated},
		{name: "prefix that is refused", body: ".byte 0x2e, 0x90; push %rbx; pop %rbx", need: everything, want: "push rbx", method: Emulated},
		{name: "behind an instruction that is refused", body: "mov $1, %eax; lock addl $0, -64(%rsp); nop", need: everything, want: "mov eax, 0x1", method: Stepped},
		{name: "tail call to itself", body: "mov $1, %eax; push %rbx; pop %rbx; sub $1, %esi; jns probed", need: everything, want: "push rbx", method: Emulated, calls: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.NeedUprobes(t)
			text := fmt.Sprintf(twoCallers, asmLines(test.body), test.where, asmLines(test.extra))
			path := testenv.CompileText(t, ".S", text, "-no-pie")
			m := moduleAt(t, path)
			site, err := In(m).EntrySiteFor(indexOf(t, m, "probed"), test.need)
			if err != nil {
				t.Fatalf("refused: it %v", err)
			}
			if !strings.HasPrefix(site.Insn(), test.want) || site.Method != test.method || site.SPOffset != int64(test.offset) {
				t.Errorf("site `%s`, %s, %d below the return address, want `%s`, %s, %d",
					site.Insn(), site.Method, site.SPOffset, test.want, test.method, test.offset)
			}
			seen := observe(t, path, addressOf(t, path, "back"), site)
			want := 100 * uint64(max(test.calls, 1))
			if seen.hits != want || seen.returnAddress != want || test.need.Args && seen.argument != want {
				t.Errorf("of %d calls at `%s`: %+v", want, site.Insn(), seen)
			}
		})
	}
}

func asmLines(text string) string { return strings.ReplaceAll(text, ";", "\n\t") }

// observed counts hits, those with 41 as first argument, with 42 in rax, and
// with the return address where the site says.
type observed struct{ hits, argument, value, returnAddress uint64 }

// observe runs a program that waits for a byte, with uprobes at sites whose
// program compares the values.
func observe(t *testing.T, path string, returns uint64, sites ...Site) (sum observed) {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	ex, err := link.OpenExecutable(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, site := range sites {
		prog, err := ebpf.NewProgram(observer(counts, returns, site.SPOffset))
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		l, err := ex.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: []uint64{site.Offset}})
		if err != nil {
			t.Fatalf("the kernel refuses `%s`: %v", site.Insn(), err)
		}
		defer l.Close()
	}
	in.Write([]byte("\n"))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the probed program fails: %v\n%s", err, output.Bytes())
	}
	for i, to := range []*uint64{&sum.hits, &sum.argument, &sum.value, &sum.returnAddress} {
		if err := counts.Lookup(uint32(i), to); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

func observer(counts *ebpf.Map, returns uint64, offset int64) *ebpf.ProgramSpec {
	const rax, rdi, rsp = 80, 112, 152 // in struct pt_regs
	count := func(key int32, next string) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.RFP, -4, int64(key), asm.Word),
			asm.LoadMapPtr(asm.R1, counts.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, next),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		}
	}
	is := func(key int32, reg int16, value int32, label, next string) asm.Instructions {
		return append(asm.Instructions{
			asm.LoadMem(asm.R1, asm.R6, reg, asm.Word).WithSymbol(label),
			asm.JNE.Imm(asm.R1, value, next),
		}, count(key, next)...)
	}
	var text asm.Instructions
	text = append(text, asm.Mov.Reg(asm.R6, asm.R1))
	text = append(text, count(0, "argument")...)
	text = append(text, is(1, rdi, 41, "argument", "value")...)
	text = append(text, is(2, rax, 42, "value", "return")...)
	text = append(text,
		asm.LoadMem(asm.R3, asm.R6, rsp, asm.DWord).WithSymbol("return"),
		asm.Add.Imm(asm.R3, int32(offset)),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -16),
		asm.FnProbeReadUser.Call(),
		asm.LoadMem(asm.R1, asm.RFP, -16, asm.DWord),
		asm.LoadImm(asm.R2, int64(returns), asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "end"),
	)
	text = append(text, count(3, "end")...)
	text = append(text, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	return &ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL", Instructions: text}
}

// addressOf returns the value of a symbol.
func addressOf(t *testing.T, path, name string) uint64 {
	t.Helper()
	f, err := stdelf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

// A nop sled for tracers that patch it: two before the entry, three after.
func TestPatchableEntry(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileText(t, ".c", `
		#include <stdio.h>
		__attribute__((noinline)) int probed(int x) { volatile int y = x; return y + 1; }
		int main(void) { int s = getchar(); for (int i = 0; i < 100; i++) s += probed(i); return s == 0; }`,
		"-O1", "-fpatchable-function-entry=5,2")
	m := moduleAt(t, path)
	site, err := In(m).EntrySite(indexOf(t, m, "probed"))
	if err != nil || site.Method != Emulated || site.PastEntry {
		t.Errorf("site %+v, %v; want the first nop of the entry", site, err)
	}
	if hits := countRun(t, path, site.Offset); hits != 100 {
		t.Errorf("%d hits of 100 calls", hits)
	}
}

// The registers that must not change are those of the arguments that are read, in C and in
// Go, where the goroutine is always read.
func TestArgumentsRead(t *testing.T) {
	for _, test := range []struct {
		only uint8
		isGo bool
		want registers
	}{
		{0, false, argumentsC}, {0, true, argumentsGo},
		{1 << 0, false, 1 << regRDI}, {1<<2 | 1<<5, false, 1<<regRDX | 1<<9},
		{1 << 0, true, 1<<regRAX | 1<<14}, {1<<3 | 1<<5, true, 1<<regRDI | 1<<8 | 1<<14},
	} {
		if got := (Need{Args: true, Only: test.only}).arguments(test.isGo); got != test.want {
			t.Errorf("arguments %06b, Go %v: registers %016b, not %016b", test.only, test.isGo, got, test.want)
		}
	}
}

// Every site that is chosen is among the possible ones, and there are few of these.
func TestPossibleEntrySites(t *testing.T) {
	m := moduleAt(t, "/lib/x86_64-linux-gnu/libc.so.6")
	possible, functions := 0, 0
	for i := range m.Len() {
		offsets := In(m).PossibleEntrySites(i)
		possible += len(offsets)
		for _, need := range []Need{{}, {Args: true}, {Args: true, Only: 1}, {Args: true, Only: 2, Return: true}, {Args: true, Only: 1 << 5}, {Return: true}, {Entry: true}} {
			site, err := In(m).EntrySiteFor(i, need)
			if err == nil && !slices.Contains(offsets, site.Offset) {
				t.Errorf("%s is probed at %#x for %+v, which is not one of %#x", m.Function(i).Name, site.Offset, need, offsets)
			}
		}
		functions++
	}
	if possible > 2*functions {
		t.Errorf("%d possible sites of %d functions", possible, functions)
	}
}

// methodsOf counts the functions of a module by their site's method.
func methodsOf(m *elf.Module, need Need) (methods map[string]int, probed int) {
	methods = map[string]int{}
	for i := range m.Len() {
		if site, err := In(m).EntrySiteFor(i, need); err == nil {
			methods[site.Method]++
			probed++
		}
	}
	return methods, probed
}

// Most functions have a site that is not stepped.
func TestShareOfCheapSites(t *testing.T) {
	testenv.Long(t)
	for _, test := range []struct {
		program string
		want    float64 // percent of functions, for a return trap
	}{
		{"postgres", 80},
		{"redis-server", 70},
		{"gofmt", 84},
		{"/lib/x86_64-linux-gnu/libc.so.6", 55},
	} {
		path := test.program
		if _, err := os.Stat(path); err != nil {
			path = testenv.NeedProgram(t, test.program)
		}
		m := moduleAt(t, path)
		atEntry := 0
		for i, f := range m.All() {
			code, err := m.Image().Code(f.Addr, m.Extent(i))
			if err != nil {
				continue
			}
			if list := candidates(code, 0, Need{}, 0, false); len(list) > 0 && list[0].refused == nil && list[0].method == Emulated {
				atEntry++
			}
		}
		all := m.Len()
		var text strings.Builder
		fmt.Fprintf(&text, "%d functions: %.1f %% emulated at the entry", all, 100*float64(atEntry)/float64(all))
		for _, need := range []Need{{Args: true, Return: true}, {Args: true}, {Return: true}, {}} {
			methods, probed := methodsOf(m, need)
			share := 100 * float64(methods[Emulated]+methods[Nop]) / float64(probed)
			fmt.Fprintf(&text, "; %+v %.1f %% of %d", need, share, probed)
			if share < test.want {
				t.Errorf("%s: %.1f %% of the sites for %+v are cheap, want %.0f", path, share, need, test.want)
			}
		}
		t.Logf("%s: %s", path, text.String())
	}
}
