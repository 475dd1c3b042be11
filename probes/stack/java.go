package stack

import (
	"fmt"
	"path/filepath"

	"endoscope/probes/process"
	"endoscope/probes/runtimes/java"
)

// JavaStacks are the values of SET java_stacks.
const (
	JavaOff  = "off"        // Java programs have the stacks of the machine that runs them
	JavaDump = "threaddump" // the machine is asked, and halts for it
)

// javaProcess is the Java virtual machine of a process.
type javaProcess struct {
	machine *java.Machine
	threads map[int]*java.Thread // of this snapshot, by tid
	numbers map[java.Frame]uint32
	frames  []uint32
}

// isMachine reports whether a process runs a Java virtual machine.
func isMachine(pid int) bool {
	text, err := process.Text(pid)
	if err != nil {
		return false
	}
	for _, m := range text {
		if filepath.Base(m.Path) == "libjvm.so" {
			return true
		}
	}
	return false
}

// openJava attaches to the machine of a process, if it has one.
func (c *collector) openJava(sp *space) error {
	pid := sp.process.PID
	if !c.javaDumps || !isMachine(pid) {
		return nil
	}
	m, err := java.Attach(pid)
	if err != nil {
		return fmt.Errorf("stacks of Java in process %d: %w", pid, err)
	}
	sp.java = &javaProcess{machine: m, numbers: map[java.Frame]uint32{}}
	return nil
}

// dump asks the machines of all processes for their threads. What that costs them
// counts as ours.
func (c *collector) dump() {
	for _, sp := range c.spaces {
		j := sp.java
		if j == nil {
			continue
		}
		clear(j.threads)
		threads, cost, err := j.machine.Threads()
		c.halted += cost
		if err != nil {
			c.undumped++
			continue
		}
		if j.threads == nil {
			j.threads = map[int]*java.Thread{}
		}
		for i := range threads {
			if t := &threads[i]; t.TID != 0 {
				j.threads[t.TID] = t
			}
		}
	}
}

// javaStates are the states of threads as the machine tells them.
var javaStates = map[java.State]state{java.Running: stateRun, java.Waiting: stateWait, java.Reading: stateIO, java.Writing: stateIO, java.Locking: stateBlocked}

// observeJava makes t what the machine said of it; false if it said nothing.
func (c *collector) observeJava(sp *space, t *thread, s sample) bool {
	if sp.java == nil {
		return false
	}
	j := sp.java
	said := j.threads[int(s.Tid)]
	if said == nil {
		return false
	}
	j.frames = j.frames[:0]
	for _, f := range said.Frames {
		n, ok := j.numbers[f]
		if !ok {
			if len(j.numbers) > maxPlaces {
				clear(j.numbers)
			}
			n = c.frames.number(frame{function: f.Method, module: f.Module, system: f.System})
			j.numbers[f] = n
		}
		j.frames = append(j.frames, n)
	}
	t.stack, t.cause, t.state = c.frames.stack(j.frames, true), reached, javaStates[said.State]
	if s.Flags&(running|unchanged) == 0 {
		t.nr = s.Syscall
	} else if s.Flags&running != 0 {
		t.nr = -1
	}
	if t.name == "" || s.Flags&(running|unchanged) == 0 {
		if name := comm(&s.Comm); len(name) > 0 && string(name) != t.name {
			t.name = string(name)
		}
	}
	return true
}
