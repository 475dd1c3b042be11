package stack

import (
	"endoscope/planner/plan"
	"endoscope/probes/elf"
	"endoscope/probes/process"
)

const wordBytes = 8

// step is a frame as the unwinder passed it.
type step struct {
	module *module
	offset uint64 // file offset of the instruction
	frame  uint64 // stack position of the return address
}

// OpenCalls is a thread at an instant with its unfinished calls, the innermost first.
// Whole says that they reach its first function.
type OpenCalls struct {
	PID, TID int
	Time     int64 // boot clock, ns
	Calls    []OpenCall
	Whole    bool
}

// OpenCall is an unfinished call of a named function. Inlined calls are not
// included.
type OpenCall struct {
	Function, Class string
	Module          string // base name of its file
	Begins          uint64 // file offset of the function's first instruction
	At              uint64 // file offset of the instruction executed next, or of the one that calls the next function
	Frame           uint64 // stack position of its return address
}

// SampleOnce samples all threads of processes once, as stack_sample does, without stopping
// any. Functions of Java and of interpreted languages are not included; the functions
// of their machines and interpreters are.
func SampleOnce(cache *elf.Cache, running []process.Process, visit func(OpenCalls)) error {
	kernel, err := newSampler(nil)
	if err != nil {
		return err
	}
	frames := newInterner(false)
	ms := newModules(cache, frames, nil)
	ms.whole = true
	target := plan.Target{}
	for _, p := range running {
		target.PIDs = append(target.PIDs, p.PID)
	}
	c := &collector{
		kernel: kernel, modules: ms, frames: frames, unwinder: newUnwinder(ms), targets: newTargets(target, running),
		spaces: map[int]*space{}, threads: map[uint32]*thread{}, java: JavaOff,
	}
	defer c.close()
	c.unwinder.recordSteps = true
	return c.snapshotThreads(func(o *observation) {
		if o.goroutine != 0 {
			return
		}
		visit(c.openCalls(o))
	})
}

// openCalls returns the calls that the unwinder has just passed.
func (c *collector) openCalls(o *observation) OpenCalls {
	s := OpenCalls{PID: o.process.PID, TID: int(o.tid), Time: int64(o.time), Whole: o.cause == reached}
	for _, at := range c.unwinder.steps {
		m := at.module.symbols
		if m == nil {
			continue
		}
		address, ok := m.AddrOf(at.offset)
		if !ok {
			continue
		}
		i, found := m.FunctionAt(address)
		if !found {
			continue
		}
		fn := m.Function(i)
		s.Calls = append(s.Calls, OpenCall{
			Function: fn.Name, Class: fn.Class, Module: at.module.name, Begins: fn.Offset, At: at.offset, Frame: at.frame,
		})
	}
	return s
}
