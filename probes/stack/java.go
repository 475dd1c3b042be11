package stack

import (
	"fmt"
	"path/filepath"
	"time"

	"endoscope/probes/lang/java"
	"endoscope/probes/process"
)

// JavaStacks are the values of SET java_stacks.
const (
	JavaOff  = "off"        // Java programs have the native stacks of the machine
	JavaDump = "threaddump" // the machine is asked for a thread dump, and stops for it
	JavaMaps = "perfmap"    // the machine writes a map of its compiled methods
)

// javaProcess is the Java virtual machine of a process.
type javaProcess struct {
	machine *java.Machine
	maps    bool // it reports its methods, not its threads
	asked   time.Time
	pause   time.Duration        // before the methods are requested again
	missing bool                 // there was code missing in the map
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
	if c.java != JavaDump && c.java != JavaMaps || !isMachine(pid) {
		return nil
	}
	m, err := java.Attach(pid)
	if err != nil {
		return fmt.Errorf("stacks of Java in process %d: %w", pid, err)
	}
	j := &javaProcess{machine: m, maps: c.java == JavaMaps, pause: soonMap, numbers: map[java.Frame]uint32{}}
	if j.maps {
		cost, err := m.WritePerfMap()
		if err != nil {
			m.Close()
			return fmt.Errorf("stacks of Java in process %d: %w", pid, err)
		}
		c.javaTime += cost
		j.asked = time.Now()
	}
	sp.java = j
	return nil
}

// The methods are requested again when code was missing in the map, after a pause that
// doubles from soonMap to lateMap, because a machine compiles less and less; and at
// the latest after lateMap, because other code may have replaced discarded code.
const (
	soonMap = time.Second
	lateMap = time.Minute
)

// remap has a machine write its methods again if it is time.
func (c *collector) remap(sp *space) {
	j := sp.java
	if since := time.Since(j.asked); since < j.pause || !j.missing && since < lateMap {
		return
	}
	j.asked, j.pause, j.missing = time.Now(), min(2*j.pause, lateMap), false
	cost, err := j.machine.WritePerfMap()
	c.javaTime += cost
	if err != nil {
		c.undumped++
		return
	}
	if sp.jit != nil && sp.jit.code != nil {
		_ = sp.jit.code.Renew() // if the map is gone, there are no names
	}
}

// dump requests the threads or methods from the machines of all processes. The CPU
// time they use for it counts as cost of sampling.
func (c *collector) dump() {
	for _, sp := range c.spaces {
		j := sp.java
		if j == nil {
			continue
		}
		if j.maps {
			c.remap(sp)
			continue
		}
		clear(j.threads)
		threads, cost, err := j.machine.Threads()
		c.javaTime += cost
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

// javaStates maps the machine's thread states to ours.
var javaStates = map[java.State]state{java.Running: stateRun, java.Waiting: stateWait, java.Reading: stateIO, java.Writing: stateIO, java.Locking: stateBlocked}

// observeJava sets t from the machine's answer; it returns false if there is none.
func (c *collector) observeJava(sp *space, t *thread, s sample) bool {
	if sp.java == nil || sp.java.maps {
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
