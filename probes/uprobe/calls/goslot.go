package calls

import (
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/elf"
)

// GoSlots says where the threads of a query's Go programs store their current g
// (elf.Module.GoSlot). A program in the kernel reads this place where the register of
// the goroutine holds something else, as in assembler. All programs of a query use one
// place, that of the first module.
type GoSlots struct {
	known bool // there is a Go module
	at    int64
}

// usualSlot is the place that programs use if no Go module is known (exit.h).
const usualSlot = -8

func (s GoSlots) place() int64 {
	if s.known {
		return s.at
	}
	return usualSlot
}

// Note records the place in a Go module.
func (s *GoSlots) Note(at int64) {
	if !s.known {
		*s = GoSlots{known: true, at: at}
	}
}

// Findable returns nil if the calls of Go function i, which is observed at its exits,
// can be distinguished by goroutine, else an error.
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

// Holds reports whether programs built for s also work for the modules of more.
func (s GoSlots) Holds(more GoSlots) bool { return !more.known || more.at == s.place() }

func (s GoSlots) Specialise(spec *ebpf.CollectionSpec) error {
	return spec.Variables[bpf.FunctionVarSlotOfG].Set(s.place())
}
