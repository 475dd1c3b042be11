package uprobe

import (
	"errors"

	"github.com/cilium/ebpf"

	"endoscope/probes/bpf"
	"endoscope/probes/elf"
)

// goSlots says where the threads of a query's Go programs have the g that they run
// (elf.Module.GoSlot): a program looks there where the register of the goroutine
// has something else in it, as in assembler. All programs of a query look at one
// place, that of the first module.
type goSlots struct {
	known bool // there is a module of Go
	at    int64
}

// usualSlot is what programs take that are not told of a module of Go (exit.h).
const usualSlot = -8

func (s goSlots) place() int64 {
	if s.known {
		return s.at
	}
	return usualSlot
}

// note notes where a module of Go has it.
func (s *goSlots) note(at int64) {
	if !s.known {
		*s = goSlots{known: true, at: at}
	}
}

// findable is nil if the calls of function i, one of Go's that is observed at its exits,
// can be told apart by goroutine.
func (s goSlots) findable(sym *elf.Module, i int) error {
	switch at := sym.GoSlot(); {
	case at != 0 && at == s.place() || !sym.Native(i):
		return nil
	case at == 0:
		return errors.New("is assembler, and the file does not say where a thread has its goroutine (thread-local data of C, and no symbol runtime.tlsg)")
	default:
		return errors.New("is assembler, and its threads have their goroutine elsewhere than those of another module of the query")
	}
}

// hold reports whether programs that were made for s do for the modules of more.
func (s goSlots) hold(more goSlots) bool { return !more.known || more.at == s.place() }

func (s goSlots) specialise(spec *ebpf.CollectionSpec) error {
	return spec.Variables[bpf.FunctionVarSlotOfG].Set(s.place())
}
