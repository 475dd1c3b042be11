package codesite

import (
	"errors"
	"slices"
	"testing"

	"endoscope/probes/testenv"
)

// A given place is probed where an instruction begins, and refused within one,
// after the function, and where the kernel would refuse or cause harm.
func TestSitesAt(t *testing.T) {
	m := moduleAt(t, testenv.CompileText(t, ".s", `
	.text
	.globl f
	.type f, @function
f:	push %rbp
	mov %rsp, %rbp
	pushf
	.byte 0x0f, 0x1f, 0x44, 0, 0
	jmp 1f
1:	pop %rbp
	ret
	.size f, .-f
	.globl main
main:	ret
	.section .note.GNU-stack,"",@progbits
`))
	i := indexOf(t, m, "f")
	entry := m.Function(i).Addr
	if In(m).Body(i) != entry {
		t.Errorf("a C function has done something at %#x", In(m).Body(i))
	}
	var addrs []uint64
	for n := range uint64(16) {
		addrs = append(addrs, entry+n)
	}
	sites, why, err := In(m).SitesAt(i, addrs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, s := range sites {
		got = append(got, s.Method)
		if (s.Method == "") != (why[k] != nil) || s.Method != "" && (s.Addr != addrs[k] || s.PastEntry != (k > 0)) {
			t.Errorf("+%d: %+v, %v", k, s, why[k])
		}
	}
	want := []string{Emulated, Stepped, "", "", "", "", "", "", "", "", Emulated, "", Stepped, Stepped, "", ""}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The part of a Go function that only grows its stack belongs to none of its
// lines.
func TestSitesAtOfGo(t *testing.T) {
	m := moduleAt(t, testenv.CompileGo(t, "../variable/testdata/golocals"))
	i := indexOf(t, m, "main.fib")
	f := m.Function(i)
	if begin := In(m).Body(i); begin <= f.Addr || begin-f.Addr > 16 {
		t.Errorf("the stack is checked until %#x of %#x", begin, f.Addr)
	}
	var addrs []uint64
	for a := f.Addr; a < f.Addr+f.Size; a++ {
		addrs = append(addrs, a)
	}
	_, why, err := In(m).SitesAt(i, addrs)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(why, func(err error) bool { return errors.Is(err, ErrGrowsStack) }) {
		t.Error("nothing of it grows the stack")
	}
}
