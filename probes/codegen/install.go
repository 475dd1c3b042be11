package codegen

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Calls reports whether a program calls a function.
func Calls(spec *ebpf.ProgramSpec, function string) bool {
	for i := range spec.Instructions {
		if spec.Instructions[i].Symbol() == function {
			return true
		}
	}
	return false
}

// Install replaces the body of a function that spec's program calls
// (BPF-to-BPF), before it is loaded. nil leaves the function as it is.
func Install(spec *ebpf.ProgramSpec, function string, body asm.Instructions) error {
	if body == nil {
		return nil
	}
	begin := -1
	for i := range spec.Instructions {
		if spec.Instructions[i].Symbol() == function {
			begin = i
			break
		}
	}
	if begin < 0 {
		return fmt.Errorf("program %s calls no function %s", spec.Name, function)
	}
	end := begin + 1
	for end < len(spec.Instructions) && btf.FuncMetadata(&spec.Instructions[end]) == nil {
		end++
	}
	// The function's name, type and source position are attached to its first
	// instruction; the verifier needs them.
	first := body[0]
	first.Metadata = spec.Instructions[begin].Metadata
	out := make(asm.Instructions, 0, len(spec.Instructions)+len(body))
	out = append(out, spec.Instructions[:begin]...)
	out = append(append(out, first), body[1:]...)
	spec.Instructions = append(out, spec.Instructions[end:]...)
	return nil
}
