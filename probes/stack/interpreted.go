package stack

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/lang/php"
	"endoscope/probes/lang/python"
	"endoscope/probes/lang/ruby"
)

// languages are those whose programs an interpreter executes.
var languages = []*interpreter.Language{&python.Language, &ruby.Language, &php.Language}

// languageOf returns the language whose interpreter a file is, by its name; nil: none.
func languageOf(path string) *interpreter.Language {
	for _, l := range languages {
		if l.IsInterpreter(path) {
			return l
		}
	}
	return nil
}

// interpreters are those of a process: of most none or one.
type interpreters struct {
	image uint64 // the program image for which they were read
	all   []*interpretedProcess
}

// interpretedProcess is the state of an interpreter in a process.
type interpretedProcess struct {
	language *interpreter.Language
	module   string // the file of the interpreter
	process  *interpreter.Process
	threads  map[uint32]interpreter.Thread // whose frames the kernel reads with a sample
	calls    []interpreter.Call
	stack    []interpreter.Frame
	frames   []uint32
	numbers  map[interpreter.Frame]uint32
}

// openInterpreters opens the interpreters of a process whose versions are known.
func (c *collector) openInterpreters(sp *space) *interpreters {
	in := &interpreters{image: sp.image}
	for _, l := range languages {
		p := &interpretedProcess{language: l, threads: map[uint32]interpreter.Thread{}, numbers: map[interpreter.Frame]uint32{}}
		layout, bias := findRuntime(sp,
			func(m *module) *runtimeLayout[interpreter.Layout] { return &m.interpreter },
			func(m *module) bool {
				p.module = m.name
				return m.language == l
			},
			func(f io.ReaderAt, path string) (*interpreter.Layout, error) {
				l, err := l.ReadLayout(f, path)
				if err != nil {
					return nil, err
				}
				return &l, nil
			})
		if layout != nil {
			p.process = interpreter.Open(sp.process.PID, *layout, bias)
			in.all = append(in.all, p)
		}
	}
	return in
}

// of returns the interpreter that executes a thread, and the thread there; nil: none. That of a
// thread whose frames came with its sample is known.
func (in *interpreters) of(s sample) (*interpretedProcess, interpreter.Thread) {
	if s.Flags&interpreted != 0 {
		for _, p := range in.all {
			if t, known := p.threads[s.Tid]; known {
				return p, t
			}
		}
	}
	for _, p := range in.all {
		if t, found := p.process.Thread(int(s.Tid)); found {
			return p, t
		}
	}
	return nil, interpreter.Thread{}
}

// interpreted replaces the interpreter's stack, which the unwinder found and whose cause
// is why, by that of the program that it executes: below the innermost call of the
// interpreter's loop come the program's frames. waits is true if the thread waits for the
// interpreter's lock. ok is false if the thread must be sampled again.
//
// The frames of a running thread were read in the interrupt that sampled it. Those of
// others are read here; they are unchanged if the thread has not run since.
func (c *collector) interpreted(sp *space, s sample, why cause) (is cause, waits, ok bool) {
	if sp.interpreters == nil {
		sp.interpreters = c.openInterpreters(sp)
	}
	p, thread := sp.interpreters.of(s)
	if p == nil {
		return why, false, true
	}
	is = reached
	if s.Flags&interpreted != 0 {
		p.calls = p.calls[:0]
		for i, code := range s.codes {
			one := interpreter.Call{Code: code}
			if s.Flags&placed != 0 {
				one.Place = s.places[i]
			}
			p.calls = append(p.calls, one)
		}
		if s.Flags&cut != 0 {
			is = noFrames
		}
	} else {
		before, known := p.threads[s.Tid]
		if known && before == thread && s.Flags&onCPU != 0 { // it is another thread's now
			p.process.Forget(int(s.Tid))
			delete(p.threads, s.Tid)
			return why, false, false
		}
		if before != thread && c.kernel.setInterpreter(s.Tid, thread, p.process.Layout.Frames()) == nil {
			p.threads[s.Tid] = thread
		}
		if s.Flags&onCPU != 0 {
			return why, false, false
		}
		var all bool
		if p.calls, all = p.process.Calls(thread, p.calls[:0]); !all {
			is = noFrames
		}
		if !hasNotRun(s) {
			return why, false, false
		}
	}
	if len(p.calls) == 0 && is == reached {
		return why, false, true
	}
	if r := p.language.PlaceRegister; r != 0 && len(p.calls) > 0 && slices.Contains(p.language.Loop, c.leaf()) {
		p.calls[0] = p.process.At(p.calls[0], s.Regs[r])
	}
	var names bool
	if p.stack, names = p.process.Functions(p.calls, p.stack[:0]); !names {
		return noFrames, false, true
	}
	wait := c.machineFrames(p, s)
	waits = p.process.AwaitsLock(thread, wait)
	for _, f := range p.stack {
		n, ok := p.numbers[f]
		if !ok {
			if len(p.numbers) > maxPlaces {
				clear(p.numbers)
			}
			n = c.frames.number(p.frame(f))
			p.numbers[f] = n
		}
		p.frames = append(p.frames, n)
	}
	c.unwinder.frames = p.frames
	return is, waits, true
}

// leaf returns the function of the machine that the thread executes, "" if there is none.
func (c *collector) leaf() string {
	if len(c.unwinder.frames) == 0 {
		return ""
	}
	return c.frames.frames[c.unwinder.frames[0]].function
}

// machineFrames sets the frames of p to those of the machine's stack that are above the
// interpreter's loop, and returns how the thread sleeps.
func (c *collector) machineFrames(p *interpretedProcess, s sample) (wait interpreter.Wait) {
	if s.Syscall == sysFutex {
		wait.Futex = s.Regs[regFirstArgument]
	}
	p.frames = p.frames[:0]
	timed := false
	for _, n := range c.unwinder.frames {
		f := &c.frames.frames[n]
		if slices.Contains(p.language.Loop, f.function) {
			if p.language.InnerLoop && len(p.frames) > 0 {
				above := &c.frames.frames[p.frames[len(p.frames)-1]]
				if above.module == f.module && strings.HasPrefix(above.function, unnamed) {
					p.frames = p.frames[:len(p.frames)-1]
				}
			}
			break
		}
		if timed && f.module != "libc.so.6" {
			wait.Timed, timed = f.module, false
		}
		timed = timed || f.function == "pthread_cond_timedwait" || f.function == "pthread_cond_clockwait"
		p.frames = append(p.frames, n)
	}
	return wait
}

// regFirstArgument is the register of a system call's first argument, rdi.
const regFirstArgument = 5

// frame returns a frame of the program. Functions of the interpreter itself belong to its
// file.
func (p *interpretedProcess) frame(f interpreter.Frame) frame {
	if f.File == "" {
		return frame{function: f.Function, module: p.module, system: true}
	}
	return frame{function: f.Function, module: filepath.Base(f.File), system: inSystemFolder(f.File) || p.language.IsStandard(f.File), file: f.File, line: f.Line}
}
