package stack

import (
	"time"

	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/elf"
	"endoscope/probes/process"
	"endoscope/probes/unwind"
)

// Copied is a thread as a program in the kernel saw it when a call of a function
// began or ended: its registers, and the top of its stack.
type Copied struct {
	PID        int
	Time       int64                    // of the boot clock
	Image      uint64                   // changes when the process executes another program
	Regs       [unwind.Registers]uint64 // as DWARF numbers them
	Trampoline uint64                   // where return addresses taken by return traps point; 0: none
	// Returned is an instruction of the function, if that has returned: the
	// registers are its caller's. 0: they are its own.
	Returned uint64
	// ReturnAt is where on the stack its return address lies, if it has not
	// returned. It is needed where no table says.
	ReturnAt uint64
	Taken    []bpf.FunctionTaken // by return traps
	Stack    []byte              // from the stack pointer on
}

// Stacks makes of copies what stack_sample makes of samples: frames by the unwind
// tables of the modules, and equal stacks one value. What was not copied is not
// read later: the thread has gone on. It is used by one goroutine.
type Stacks struct {
	modules  *modules
	frames   *interner
	unwinder *unwinder
	spaces   map[int]*space
	sample   bpf.StackSample
	taken    []bpf.StackTaken
}

// maxSpaces is how many processes are remembered.
const maxSpaces = 4096

// Left is what a process had mapped as code, by address, when it executed the program that
// it did at a time of the boot clock, if it does so no more, and the program's path; else
// nothing.
type Left func(pid int, at int64) (text []process.Mapping, exe string)

// NewStacks makes it. systemModules is as in plan.Settings; the cache outlives it. left
// may be nil.
func NewStacks(cache *elf.Cache, systemModules string, left Left) *Stacks {
	frames := newInterner()
	ms := newModules(cache, frames, chosenModules(systemModules))
	ms.left = left
	return &Stacks{modules: ms, frames: frames, unwinder: newUnwinder(ms), spaces: map[int]*space{}}
}

// Close forgets the modules that were read.
func (s *Stacks) Close() { s.modules.close() }

// Know notes what a process can execute, for it may end before its first event
// is read.
func (s *Stacks) Know(pid int) {
	sp := s.space(pid)
	sp.at = clock.Boot()
	sp.refresh(s.modules, time.Now())
}

// space is the code of a process, as far as it was looked at.
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

// Of is the stack as a LIST column has it, the function first; why says why it
// does not reach its thread's first function, "" if it does. The value is shared
// by equal stacks.
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
	}, false)
	stack := s.frames.stack(s.unwinder.frames, cause == reached)
	if cause == reached {
		return stack.value, ""
	}
	return stack.value, cutStack + cause.String()
}

// Caller is the name of the function that has the call which an address lies
// behind, at a time of the boot clock; false if there is no code, or none with a name.
func (s *Stacks) Caller(pid int, at int64, image, address uint64) (name string, ok bool) {
	u := s.unwinder
	u.space = s.space(pid)
	u.space.at = at
	u.look(image)
	r := u.region(address - 1)
	if r == nil {
		return "", false
	}
	n := s.modules.at(r.module, address-1-r.start+r.offset).frame
	if r.module.symbols == nil {
		if c, compiled := u.compiled(address - 1); compiled {
			n = c
		}
	}
	name = s.frames.frames[n].function
	return name, name != unknown
}
