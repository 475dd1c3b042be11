package stack

import (
	"io"
	"strings"

	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/lang/golang"
	"endoscope/probes/unwind"
)

// golangProcess is the state of the Go runtime in a process.
type golangProcess struct {
	image   uint64          // the program image for which it was read
	process *golang.Process // nil: goroutines cannot be listed
	header  bpf.StackSample // of a goroutine's sample
	thread  thread
}

// goroutines visits the goroutines of a process that have no thread, which the kernel
// does not know.
func (c *collector) goroutines(sp *space, visit func(*observation)) {
	if sp.golang == nil {
		sp.golang = &golangProcess{image: sp.image, process: c.openGo(sp)}
	}
	g := sp.golang
	if g.process == nil {
		return
	}
	var look func(*golang.Goroutine)
	if c.context != nil {
		clear(c.noted)
		look = func(one *golang.Goroutine) { c.lookInside(sp.process.PID, one) }
	}
	parked, torn, err := g.process.Parked(look)
	if err != nil {
		return // the process has ended, or has just started
	}
	c.parked += uint64(torn)
	now := uint64(clock.Boot())
	for i := range parked {
		one := &parked[i]
		g.header = bpf.StackSample{Image: sp.image, Syscall: -1}
		g.header.Regs[unwind.RegIP], g.header.Regs[unwind.RegSP], g.header.Regs[unwind.RegBP] = one.PC, one.SP, one.FP
		why := c.unwinder.unwind(sp, sample{StackSample: &g.header, stack: one.Stack, low: one.SP}, false)
		if why != reached {
			c.unfinished[why]++
		}
		g.thread = thread{state: goroutineState(one), runnable: one.Status == golang.Runnable, nr: -1, cause: why, stack: c.frames.stack(c.unwinder.frames, why == reached)}
		c.current = observation{thread: &g.thread, process: &sp.process, goroutine: one.ID, time: now}
		if n, ok := c.noted[one.Address]; ok {
			c.current.time = n.time
			if n.inside != nil {
				c.noteContext(&g.thread, n.inside, uint32(n.inside.N), one.SP, one.Top, why)
			}
		}
		visit(&c.current)
	}
}

// openGo opens the Go runtime of a process; nil if it has none, or if its program was
// stripped.
func (c *collector) openGo(sp *space) *golang.Process {
	layout, bias := findRuntime(sp,
		func(m *module) *runtimeLayout[golang.Layout] { return &m.golang },
		func(m *module) bool { return m.symbols.HasGo() },
		func(f io.ReaderAt, _ string) (*golang.Layout, error) { return golang.ReadLayout(f) })
	c.noteGolang(sp, layout)
	if layout == nil {
		return nil
	}
	return golang.Open(sp.process.PID, layout, bias)
}

// goroutineState classifies a goroutine by its wait reason (runtime/runtime2.go,
// waitReasonStrings).
func goroutineState(g *golang.Goroutine) state {
	switch {
	case g.Status == golang.Runnable:
		return stateRun
	case g.Reason == "IO wait":
		return stateIO
	case strings.HasPrefix(g.Reason, "sync.Mutex"), strings.HasPrefix(g.Reason, "sync.RWMutex"), g.Reason == "semacquire":
		return stateBlocked
	}
	return stateWait
}
