package calls

import (
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/elf"
)

// GoSlots says where the threads of a query's Go programs have the g that they run
// (elf.Module.GoSlot): a program looks there where the register of the goroutine
// has something else in it, as in assembler. All programs of a query look at one
// place, that of the first module.
type GoSlots struct {
	known bool // there is a module of Go
	at    int64
}

// usualSlot is what programs take that are not told of a module of Go (exit.h).
const usualSlot = -8

func (s GoSlots) place() int64 {
	if s.known {
		return s.at
	}
	return usualSlot
}

// Note notes where a module of Go has it.
func (s *GoSlots) Note(at int64) {
	if !s.known {
		*s = GoSlots{known: true, at: at}
	}
}

// Findable is nil if the calls of function i, one of Go's that is observed at its exits,
// can be told apart by goroutine.
func (s GoSlots) Findable(sym *elf.Module, i int) error {
	switch at := sym.GoSlot(); {
	case at != 0 && at == s.place() || !sym.Native(i):
		return nil
	case at == 0:
		return errors.New("is assembler, and the file does not say where a thread has its goroutine (thread-local data of C, and no symbol runtime.tlsg)")
	default:
		return errors.New("is assembler, and its threads have their goroutine elsewhere than those of another module of the query")
	}
}

// Holds reports whether programs that were made for s do for the modules of more.
func (s GoSlots) Holds(more GoSlots) bool { return !more.known || more.at == s.place() }

func (s GoSlots) Specialise(spec *ebpf.CollectionSpec) error {
	return spec.Variables[bpf.FunctionVarSlotOfG].Set(s.place())
}
