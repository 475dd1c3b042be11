package stack

import (
	"time"

	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/unwind"
)

// Copied is a thread as a program in the kernel saw it when a call of a function began
// or ended: its registers, and the top of its stack.
type Copied struct {
	PID        int
	Time       int64                    // of the boot clock
	Image      uint64                   // changes when the process executes another program
	Regs       [unwind.Registers]uint64 // as DWARF numbers them
	Trampoline uint64                   // target of the return addresses replaced by return traps; 0: none
	// Returned is the address of an instruction of the function, if it has returned:
	// the registers are its caller's. 0: the registers are its own.
	Returned uint64
	// Inside: the thread was at an instruction within the function. Else it was at its entry,
	// which belongs to no call that is inlined into it.
	Inside bool
	// ReturnAt is the stack position of the function's return address, if it has not
	// returned. It is needed where no unwind table covers the function.
	ReturnAt uint64
	Taken    []bpf.FunctionTaken // replaced by return traps
	Stack    []byte              // from the stack pointer on
}

// Stacks unwinds copies as stack_sample unwinds samples: it finds frames by the unwind
// tables of the modules, and equal stacks share one value. Memory that was not copied
// is not read later, because the thread has continued. It is used by one goroutine.
type Stacks struct {
	modules  *modules
	frames   *interner
	unwinder *unwinder
	spaces   map[int]*space
	sample   bpf.StackSample
	taken    []bpf.StackTaken
}

// maxSpaces bounds the processes remembered.
const maxSpaces = 4096

// MappingsBefore returns the code mappings, by address, and the executable's path of the program
// that a process executed at a time of the boot clock, if the process no longer
// executes it; else nothing.
type MappingsBefore func(pid int, at int64) (text []process.Mapping, exe string)

// NewStacks returns an empty Stacks. systemModules is as in plan.Settings; with lines frames
// have their files and lines. The cache
// must outlive the result. left may be nil.
func NewStacks(cache *elf.Cache, systemModules string, lines bool, left MappingsBefore) *Stacks {
	frames := newInterner(lines)
	ms := newModules(cache, frames, chosenModules(systemModules))
	ms.mappingsBefore = left
	return &Stacks{modules: ms, frames: frames, unwinder: newUnwinder(ms), spaces: map[int]*space{}}
}

// Close releases the modules that were read.
func (s *Stacks) Close() { s.modules.close() }

// ReadProcess reads the code mappings of a process, because it may end before its first event
// is read.
func (s *Stacks) ReadProcess(pid int) {
	sp := s.space(pid)
	sp.at = clock.Boot()
	sp.refresh(s.modules, time.Now())
}

// space returns the code mappings of a process, cached or read.
func (s *Stacks) space(pid int) *space {
	sp := s.spaces[pid]
	if sp == nil {
		if len(s.spaces) >= maxSpaces {
			clear(s.spaces)
		}
		sp = &space{process: process.Process{PID: pid}, lasting: true}
		if p, ok := process.Lookup(pid); ok {
			sp.process = p
		}
		s.spaces[pid] = sp
	}
	return sp
}

// Of returns the stack as a LIST column holds it, the function first. why says why the
// stack does not reach its thread's first function, "" if it does. Equal stacks share
// the value.
func (s *Stacks) Of(c *Copied) (value any, why string) {
	s.taken = s.taken[:0]
	for _, t := range c.Taken {
		s.taken = append(s.taken, bpf.StackTaken{At: t.At, Address: t.Address})
	}
	s.sample.Image, s.sample.Regs, s.sample.Trampoline = c.Image, c.Regs, c.Trampoline
	sp := s.space(c.PID)
	sp.at = c.Time
	cause := s.unwinder.unwind(sp, sample{
		StackSample: &s.sample, taken: s.taken, stack: c.Stack, low: c.Regs[unwind.RegSP], returned: c.Returned, returnAt: c.ReturnAt,
		entered: c.Returned == 0 && !c.Inside,
	}, false)
	stack := s.frames.stack(s.unwinder.frames, cause == reached)
	if cause == reached {
		return stack.value, ""
	}
	return stack.value, cutStack + cause.String()
}

// Missing returns what debug information lacked since the last call, by notice, with the
// number of instructions.
func (s *Stacks) Missing() map[string]uint64 { return s.modules.takeMissing() }

// Caller returns the name of the function whose call instruction precedes an address,
// at a time of the boot clock: of the innermost one, if it was inlined. It returns false if there
// is no code, or none with a name.
func (s *Stacks) Caller(pid int, at int64, image, address uint64) (name string, ok bool) {
	return s.function(pid, at, image, address-1, true)
}

// function returns the name of the function that an instruction belongs to; with inlined that of
// the innermost call compiled into it.
func (s *Stacks) function(pid int, at int64, image, address uint64, inlined bool) (name string, ok bool) {
	u := s.unwinder
	u.space = s.space(pid)
	u.space.at = at
	u.look(image)
	r := u.region(address)
	if r == nil {
		return "", false
	}
	p := s.modules.at(r.module, address-r.start+r.offset)
	n := p.frame
	if inlined && len(p.inlined) > 0 {
		n = p.inlined[0]
	}
	if r.module.symbols == nil {
		if c, compiled := u.compiled(address); compiled {
			n = c
		}
	}
	name = s.frames.frames[n].function
	return name, name != unknown
}

// Symbol returns the name of the function or variable that an address belongs to, at a time
// of the boot clock; false if there is none with a name.
func (s *Stacks) Symbol(pid int, at int64, image, address uint64) (name string, ok bool) {
	if name, ok = s.function(pid, at, image, address, false); ok && name != stub {
		return name, true
	}
	for _, r := range s.space(pid).regions {
		if r.module == nil || r.module.symbols == nil {
			continue
		}
		begin, ok := r.module.symbols.AddrOf(r.offset)
		if !ok {
			continue
		}
		if name := r.module.nameAt(address - r.start + begin); name != "" {
			return name, true
		}
	}
	return "", false
}

// nameAt returns the name of the stub or the variable at an address of the file; "" if there is
// none.
func (m *module) nameAt(addr uint64) string {
	if name, ok := m.names[addr]; ok {
		return name
	}
	name := m.symbols.ImportAt(addr)
	if name == "" {
		name, _ = m.symbols.VariableAt(addr)
	}
	if name == "" { // not kept: it is an address in any other module
		return ""
	}
	if m.names == nil || len(m.names) > maxPlaces {
		m.names = map[uint64]string{}
	}
	m.names[addr] = name
	return name
}
