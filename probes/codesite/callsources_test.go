package codesite

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"endoscope/probes/elf"
	"endoscope/probes/testenv"
)

// callerAndCalled is a program with a function that is called by another. A
// test supplies the two bodies, and the code around them.
const callerAndCalled = `
	.text
	.globl main
	.type main, @function
main:
	call caller
	xor %%eax, %%eax
	ret
	.size main, .-main
	.globl caller
	.type caller, @function
caller:
	%s
	ret
	.size caller, .-caller
	%s
	.type called, @function
called:
	.cfi_startproc
	%s
	ret
	.cfi_endproc
	.size called, .-called
	.type other, @function
other:
	%s
	ret
	.size other, .-other
	.section .note.GNU-stack,"",@progbits
`

// Each rule of CallSources has a program here for which the derived number of
// calls would be wrong if the rule were violated.
func TestInflowRules(t *testing.T) {
	const pie, fixed = "-pie", "-no-pie"
	for _, test := range []struct {
		name          string
		caller        string
		before        string // the called function
		called, other string
		link          string
		want          string // times and bytes; "": it must be probed
	}{
		{name: "first call", caller: "push %rbx; call called; pop %rbx", want: "1 x caller through 6"},
		{name: "tail call", caller: "inc %edi; jmp called", want: "1 x caller through 4"},
		{name: "around a branch", caller: "test %edi, %edi; je 1f; inc %edi; 1: call called", want: "1 x caller through 11"},
		{name: "around a jump", caller: "jmp 1f; .byte 6; 1: call called", want: ""},
		{name: "conditional", caller: "test %edi, %edi; je 1f; call called; 1: nop"},
		{name: "conditional tail call", caller: "test %edi, %edi; je called"},
		{name: "tail call on one side", caller: "test %edi, %edi; je 1f; jmp called; 1: nop"},
		{name: "after a return", caller: "test %edi, %edi; jne 1f; ret; 1: call called"},
		{name: "in a loop", caller: "mov $3, %ecx; 1: call called; dec %ecx; jne 1b"},
		{name: "in a far loop", caller: "mov $3, %ecx; 1: call called; .fill 200, 1, 0x90; dec %ecx; jne 1b"},
		{name: "after a loop", caller: "1: dec %edi; jne 1b; call called"},
		{name: "after an unknown call", caller: "call *%rax; call called"},
		{name: "after a system call", caller: "syscall; call called"},
		{name: "after a transaction begins", caller: "xbegin 1f; 1: call called"},
		{name: "after a prompt call", caller: "call other; call called", other: "inc %edi", want: "1 x caller through 10"},
		{name: "after a call that may loop", caller: "call other; call called", other: "1: dec %edi; jne 1b"},
		{name: "after a call that may leave", caller: "call other; call called", other: "mov %rdi, %rsp"},
		{name: "after a call that makes others", caller: "call other; call called", other: "call *%rax"},
		{name: "after a call without end", caller: "call other; call called", other: "call other"},
		{name: "twice", caller: "call called; call called", want: "2 x caller through 10"},
		{name: "twice, and may not return", caller: "call called; call called", called: "syscall"},
		{name: "of two functions", caller: "call called", other: "call called", want: "1 x caller through 5 + 1 x other through 5"},
		{name: "of two, one conditional", caller: "call called", other: "test %edi, %edi; je 1f; call called; 1:"},
		{name: "calls itself", caller: "call called", called: "dec %edi; je 1f; call called; 1:"},
		{name: "begins with a loop", caller: "call called", called: "dec %edi; jne called"},
		{name: "from no function", caller: "call called", before: "call called; ret"},
		{name: "entered between", caller: "inc %edi; 9: call called", other: "jmp 9b"},
		{name: "entered between by a label", caller: "inc %edi; 9: call called", other: "jmp *8f(%rip); .section .data; .balign 8; 8: .quad 9b; .text"},
		{name: "entered between by a table", caller: "inc %edi; 9: call called; lea 8f(%rip), %rax; movslq (%rax,%rcx,4), %rcx; add %rcx, %rax; jmp *%rax; .section .rodata; 8: .long 9b-8b, 0; .text"},
		{name: "fallen into", caller: "call called", before: ".type early, @function; early: inc %edi; .size early, .-early"},
		{name: "not fallen into", caller: "call called", before: ".type early, @function; early: ud2; .size early, .-early; .balign 16", want: "1 x caller through 5"},
		{name: "short jump of a neighbour", caller: "call called", other: "inc %edi; test %edi, %edi; jne called"},
		{name: "bytes that look like a short jump", caller: "call called", called: ".fill 0x12, 1, 0x90", other: "mov $0xe6eb9090, %eax", want: "1 x caller through 5"},
		{name: "where the program begins", caller: "call called", before: ".globl called; .hidden called", link: "-Wl,-e,called"},
		{name: "without unwind entry", caller: "call called", called: ".cfi_endproc; inc %edi; .cfi_startproc"},
		{name: "exported", caller: "call called", before: ".globl called"},

		{name: "address in code", caller: "call called", other: "lea called(%rip), %rax; jmp *%rax"},
		{name: "absolute address in code", caller: "call called", other: "mov $called, %eax; jmp *%rax", link: fixed},
		{name: "absolute address on the stack", caller: "call called", other: "push $called", link: fixed},
		{name: "distance from the GOT in code", caller: "call called", other: "lea _GLOBAL_OFFSET_TABLE_(%rip), %rax; movabs $called@GOTOFF, %rcx; add %rcx, %rax; jmp *%rax"},
		{name: "address in data", caller: "call called", before: ".data; .balign 8; .quad called; .text"},
		{name: "address in data, fixed", caller: "call called", before: ".data; .balign 8; .quad called; .text", link: fixed},
		{name: "packed address in data", caller: "call called", before: ".data; .byte 1; .long called; .text", link: fixed},
		{name: "distance from its place", caller: "call called", before: ".section .rodata; .balign 4; .long called-.; .text"},
		{name: "distance from a table", caller: "call called", before: ".section .rodata; .balign 4; 8: .long caller-8b, called-8b; .text",
			other: "lea 8b(%rip), %rax; movslq (%rax,%rdi,4), %rcx; add %rcx, %rax; jmp *%rax"},
		{name: "constructor", caller: "call called", before: ".section .init_array,\"aw\"; .quad called; .text"},
		{name: "constructor, fixed", caller: "call called", before: ".section .init_array,\"aw\"; .quad called; .text", link: fixed},
		{name: "indirect function", caller: "call called", before: ".type called, @gnu_indirect_function"},
		{name: "variant of an indirect function", caller: "call called", other: "lea called(%rip), %rax; .globl chosen; .type chosen, @gnu_indirect_function; .set chosen, other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.link == "" {
				test.link = pie
			}
			m := moduleAt(t, testenv.CompileText(t, ".S", fmt.Sprintf(callerAndCalled, test.caller, test.before, test.called, test.other), test.link, "-rdynamic"))
			var got []string
			for _, f := range In(m).CallSources(indexOf(t, m, "called")) {
				got = append(got, fmt.Sprintf("%d x %s through %d", f.Times, m.Function(f.From).Name, f.Through))
			}
			if got := strings.Join(got, " + "); got != test.want {
				t.Errorf("calls come from %q, want %q", got, test.want)
			}
		})
	}
}

// A Go program moves stacks and enters functions again, and a file without
// sections does not show where its data is: no sources are proven.
func TestNoInflows(t *testing.T) {
	golang := moduleAt(t, testenv.CompileGoText(t, "package main\n\nfunc main() {}\n"))
	bare := moduleAt(t, bareFile(t))
	for _, m := range []*elf.Module{golang, bare} {
		for i := range m.Len() {
			if f := In(m).CallSources(i); f != nil {
				t.Errorf("%s: %s has %+v", m.Name(), m.Function(i).Name, f)
			}
		}
	}
}

// bareFile is a program without section headers.
func bareFile(t *testing.T) string {
	path := testenv.CompileText(t, ".S", fmt.Sprintf(callerAndCalled, "call called", "", "", ""), "-pie")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[0x28:0x30]) // e_shoff
	clear(b[0x3c:0x40]) // e_shnum, e_shstrndx
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// In real programs some functions have call sources, and none that another
// program can name.
func TestInflowsOfPrograms(t *testing.T) {
	for _, name := range []string{"postgres", "redis-server"} {
		m := moduleAt(t, testenv.NeedProgram(t, name))
		exported := map[uint64]bool{}
		if symbols, err := m.Image().ELF.DynamicSymbols(); err == nil {
			for _, s := range symbols {
				exported[s.Value] = true
			}
		}
		n := 0
		for i := range m.Len() {
			if In(m).CallSources(i) == nil {
				continue
			}
			n++
			if exported[m.Entries()[i].Addr] {
				t.Errorf("%s: %s is exported", name, m.Function(i).Name)
			}
		}
		t.Logf("%s: %d of %d functions follow from others", name, n, m.Len())
		if n == 0 {
			t.Errorf("%s: no function follows from others", name)
		}
	}
}
