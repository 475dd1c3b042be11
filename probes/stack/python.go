package stack

import (
	"path/filepath"
	"strings"

	"endoscope/probes/lang/python"
)

// pythonProcess is the state of the interpreter in a process.
type pythonProcess struct {
	image   uint64                   // the program image for which it was read
	process *python.Process          // nil: no interpreter, or an unknown version
	threads map[uint32]python.Thread // whose frames the kernel reads with a sample
	codes   []uint64
	stack   []python.Frame
	frames  []uint32
	numbers map[python.Frame]uint32
}

// openPython opens the interpreter of a process; nil if it has none, or an unknown
// version.
func (c *collector) openPython(sp *space) *python.Process {
	layout, bias := findRuntime(sp,
		func(m *module) *runtimeLayout[python.Layout] { return &m.python },
		func(m *module) bool { return python.IsInterpreter(m.name) },
		python.ReadLayout)
	if layout == nil {
		return nil
	}
	return python.Open(sp.process.PID, layout, bias)
}

// interpreted replaces the interpreter's stack, which the unwinder found and whose cause
// is why, by that of the Python program: below the innermost call of the interpreter's
// loop come the Python frames. waits is true if the thread waits for the interpreter's
// lock. ok is false if the thread must be sampled again.
//
// The frames of a running thread were read in the interrupt that sampled it. Those of
// others are read here; they are unchanged if the thread has not run since.
func (c *collector) interpreted(sp *space, s sample, why cause) (is cause, waits, ok bool) {
	if sp.python == nil {
		sp.python = &pythonProcess{image: sp.image, process: c.openPython(sp), threads: map[uint32]python.Thread{}, numbers: map[python.Frame]uint32{}}
	}
	p := sp.python
	if p.process == nil {
		return why, false, true
	}
	is = reached
	if s.Flags&interpreted != 0 {
		p.codes = append(p.codes[:0], s.codes...)
		if s.Flags&cut != 0 {
			is = noFrames
		}
	} else {
		thread, found := p.process.Thread(int(s.Tid))
		if !found {
			return why, false, true
		}
		before, known := p.threads[s.Tid]
		if known && before == thread && s.Flags&onCPU != 0 { // it is another thread's now
			p.process.Forget(int(s.Tid))
			delete(p.threads, s.Tid)
			return why, false, false
		}
		if before != thread && c.kernel.setInterpreter(s.Tid, thread, p.process.Layout().Frames()) == nil {
			p.threads[s.Tid] = thread
		}
		if s.Flags&onCPU != 0 {
			return why, false, false
		}
		var all bool
		if p.codes, all = p.process.Codes(thread, p.codes[:0]); !all {
			is = noFrames
		}
		if !hasNotRun(s) {
			return why, false, false
		}
	}
	if len(p.codes) == 0 && is == reached {
		return why, false, true
	}
	var names bool
	if p.stack, names = p.process.Frames(p.codes, p.stack[:0]); !names {
		return noFrames, false, true
	}
	p.frames = p.frames[:0]
	timed := false
	for _, n := range c.unwinder.frames {
		f := &c.frames.frames[n]
		if f.function == interpreterLoop || f.function == programStart {
			break
		}
		// The interpreter's lock is a condition variable; all other locks of Python
		// are semaphores (Python/thread_pthread.h).
		if timed && f.module != "libc.so.6" {
			waits, timed = python.IsInterpreter(f.module), false
		}
		timed = timed || f.function == "pthread_cond_timedwait" || f.function == "pthread_cond_clockwait"
		p.frames = append(p.frames, n)
	}
	for _, f := range p.stack {
		n, ok := p.numbers[f]
		if !ok {
			if len(p.numbers) > maxPlaces {
				clear(p.numbers)
			}
			n = c.frames.number(frame{function: f.Function, module: filepath.Base(f.File), system: isPythonStandard(f.File), file: f.File})
			p.numbers[f] = n
		}
		p.frames = append(p.frames, n)
	}
	c.unwinder.frames = p.frames
	return is, waits, true
}

const (
	interpreterLoop = "_PyEval_EvalFrameDefault"
	programStart    = "Py_RunMain" // if the loop has no symbol
)

// isPythonStandard reports whether a file belongs to Python's library, or to the
// system.
func isPythonStandard(file string) bool {
	if strings.HasPrefix(file, "<frozen ") || inSystemFolder(file) {
		return true
	}
	i := strings.Index(file, "/lib/python3")
	return i >= 0 && !strings.Contains(file[i:], "/site-packages/") && !strings.Contains(file[i:], "/dist-packages/")
}
