package bpf

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The stack of a chain of calls in a program, and what the kernel counts of it.
const (
	maxStack  = 512
	stackUnit = 32 // before Linux 6.8
)

// checkStack fails if a chain of calls in a loaded program exceeds the kernel's limit by the
// rules of Linux 6.1: each function counts with a multiple of 32 bytes, and functions in
// code that is never executed count, too.
func checkStack(t *testing.T, spec *ebpf.ProgramSpec, loaded *ebpf.Program) {
	t.Helper()
	if bytes, chain := deepest(callsOf(spec.Instructions), stacksOf(t, loaded), spec.Name); bytes > maxStack {
		t.Errorf("%s has %d bytes of stack, and Linux 6.1 permits %d", strings.Join(chain, ", "), bytes, maxStack)
	}
}

// calling is a function of a program: those that it calls, and the bytes of its stack.
type calling struct {
	calls []string
	stack int
}

// callsOf returns the functions of a program.
func callsOf(instructions asm.Instructions) map[string]*calling {
	functions := map[string]*calling{}
	var f *calling
	var derived asm.Register // holds the frame pointer
	for _, i := range instructions {
		if s := i.Symbol(); s != "" && (f == nil || !strings.HasPrefix(s, "LBB")) {
			f = &calling{}
			functions[s] = f
		}
		if i.IsFunctionCall() || i.IsFunctionReference() {
			f.calls = append(f.calls, i.Reference())
		}
		class := i.OpCode.Class()
		at := 0
		switch {
		case class.IsStore() && i.Dst == asm.R10, class.IsLoad() && i.Src == asm.R10:
			at = int(i.Offset)
		case class.IsALU() && i.OpCode.ALUOp() == asm.Mov && i.Src == asm.R10:
			derived = i.Dst
		case class.IsALU() && i.OpCode.ALUOp() == asm.Add && i.Dst == derived && derived != 0:
			at, derived = int(i.Constant), 0
		}
		f.stack = max(f.stack, -at)
	}
	return functions
}

// stacksOf returns the bytes of stack that the verifier found for each function.
func stacksOf(t *testing.T, loaded *ebpf.Program) map[string]int {
	t.Helper()
	info, err := loaded.Info()
	if err != nil {
		t.Fatal(err)
	}
	functions, err := info.FuncInfos()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(loaded.VerifierLog, "stack depth ")
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, " ") // newer kernels add how much the chain has
	stacks := strings.Split(text, "+")
	if len(stacks) != len(functions) {
		t.Fatalf("the verifier tells %d stacks of %d functions: %q", len(stacks), len(functions), loaded.VerifierLog)
	}
	used := map[string]int{}
	for i, s := range stacks {
		if used[functions[i].Func.Name], err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return used
}

// deepest returns the chain of calls from a function that has the most stack. What the
// verifier found may include what it added itself for loops after it had counted.
func deepest(functions map[string]*calling, used map[string]int, name string) (int, []string) {
	f := functions[name]
	own := 0
	if f != nil {
		own = min(used[name], f.stack)
	}
	own = (max(own, 1) + stackUnit - 1) / stackUnit * stackUnit
	chain := []string{fmt.Sprintf("%s %d", name, own)}
	if f == nil {
		return own, chain
	}
	var most int
	var under []string
	for _, c := range f.calls {
		if functions[c] == nil {
			continue // of the kernel
		}
		if bytes, further := deepest(functions, used, c); bytes > most {
			most, under = bytes, further
		}
	}
	return own + most, append(chain, under...)
}
