package variable

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/probes/bpf"
)

// watchpoint is a hardware watchpoint on a variable, or on a pointer on the
// path to one.
type watchpoint struct {
	parent    int    // index of that of the pointer leading here; -1: a fixed address
	step      step   // of that pointer; without one, offset is the address
	size      int    // in bytes
	name      string // name of what is watched
	pointer   bool   // a pointer on the path, not a variable
	variables uint64 // bit set of the variables whose writes it sees
}

// watch is the watchpoints of a process, each after those of the pointers
// leading to it. Variables share the watchpoints of common pointers.
type watch struct {
	points   []watchpoint
	at       []uint64 // current addresses; 0: not set
	last     []last   // by variable
	outdated bool     // the pointers may have changed since at was computed
}

// last is the last reported value of a variable.
type last struct {
	time  int64 // boot clock; 0: nothing reported yet
	value value
}

func newWatch(variables []observed) (w watch) {
	w.last = make([]last, len(variables))
	for i, v := range variables {
		parent := -1
		for k := range len(v.follow) + 1 {
			p := watchpoint{parent: parent, step: step{offset: v.addr}, size: 8, variables: 1 << i}
			if k > 0 {
				p.step = v.follow[k-1]
			}
			if k < len(v.follow) {
				p.name, p.pointer = v.follow[k].pointer, true
			} else {
				offset, size := v.watched()
				p.name, p.size = v.name, size
				p.step.offset += offset
			}
			parent = w.add(p)
		}
	}
	w.at = make([]uint64, len(w.points))
	return w
}

// add returns the index of a watchpoint, adding it if it is new.
func (w *watch) add(p watchpoint) int {
	for i := range w.points {
		if have := &w.points[i]; have.parent == p.parent && have.step.offset == p.step.offset && have.step.length == p.step.length && have.size == p.size {
			have.variables |= p.variables
			have.pointer = have.pointer || p.pointer
			return i
		}
	}
	w.points = append(w.points, p)
	return len(w.points) - 1
}

// watched returns the bytes of a variable whose writes become rows, as an
// offset and a size: all of it, but for a text with pointer and length the
// field that is written last.
func (o *observed) watched() (offset uint64, size int) {
	switch o.form.kind {
	case goString:
		return 0, 8
	case cppString:
		return 8, 8
	}
	return 0, o.form.size
}

// follows reports whether any watchpoint depends on a pointer.
func (w *watch) follows() bool {
	return slices.ContainsFunc(w.points, func(p watchpoint) bool { return p.parent >= 0 })
}

// userSpace is the end of the address space of processes.
const userSpace = 1 << 47

// locate returns the addresses of the watchpoints: where the pointers lead now.
// skewed counts those that cannot be set, because the variable crosses an
// 8-byte word. ok is false if a first pointer cannot be read: the process has
// ended, or executes something else.
func (w *watch) locate(memory func(addr uint64, n int) []byte) (at []uint64, skewed uint64, ok bool) {
	at = make([]uint64, len(w.points))
	for i, p := range w.points {
		addr := p.step.offset
		if p.parent >= 0 {
			if addr = at[p.parent]; addr == 0 {
				continue
			}
			var is state
			if addr, is = p.step.dereference(addr, sliceCapacity, memory); is == unreadable && w.points[p.parent].parent < 0 {
				return nil, 0, false
			}
			if is != present {
				continue
			}
		}
		switch {
		case addr >= userSpace:
		case addr%uint64(p.size) != 0:
			skewed++
		default:
			at[i] = addr
		}
	}
	return at, skewed, true
}

// root returns the address of the first pointer on the path to a watchpoint.
func (w *watch) root(i int) uint64 {
	for w.points[i].parent >= 0 {
		i = w.points[i].parent
	}
	return w.points[i].step.offset
}

// process returns the kernel's description of the watchpoints.
func (w *watch) process(variables []observed) (p bpf.VariableProcess) {
	for i, at := range w.at {
		p.Watchpoints[i] = bpf.VariableWatchpoint{Addr: at, Variables: w.points[i].variables}
	}
	for i := range variables {
		v := &variables[i]
		offset, size := v.watched()
		k := bpf.VariableVariable{Addr: v.addr, Pointers: uint32(len(v.follow)), Size: uint32(size), Kind: readings[v.form.kind]}
		for n, s := range v.follow {
			k.Steps[n] = bpf.VariableStep{Offset: s.offset, Length: s.length}
		}
		if n := len(v.follow); n > 0 {
			k.Steps[n-1].Offset += offset
		} else {
			k.Addr += offset
		}
		p.Variables[i] = k
	}
	return p
}

// watchable returns an error if the variables cannot be watched.
func watchable(s *subject) error {
	for i, v := range s.variables {
		offset, size := v.watched()
		switch size {
		case 1, 2, 4, 8:
			if len(v.follow) == 0 && (v.addr+offset)%uint64(size) != 0 {
				return unwatchable(v.name, "it lies across two words")
			}
			if len(v.follow) > 0 && v.addr%8 != 0 {
				return unwatchable(v.name, "a pointer on the way lies across two words")
			}
		default:
			return unwatchable(v.name, "a watchpoint covers 1, 2, 4 or 8 bytes")
		}
		if len(v.follow) >= maxWatched {
			return unwatchable(v.name, fmt.Sprintf("it takes %d watchpoints, one for itself and one for each pointer on the way (%s), and a processor has %d",
				len(v.follow)+1, pointersOf(s.variables[i:i+1]), maxWatched))
		}
	}
	if n := len(s.watch.points); n > maxWatched {
		var names []string
		for _, v := range s.variables {
			names = append(names, v.name)
		}
		return &nameError{names[0], fmt.Errorf("%s cannot be watched together: they take %d watchpoints, each one for itself and one for each pointer on the way (%s), and a processor has %d (SAMPLE(%s, 10ms) reads them)",
			strings.Join(names, ", "), n, pointersOf(s.variables), maxWatched, Stream)}
	}
	return nil
}

// pointersOf lists the names of pointers on the path to variables.
func pointersOf(variables []observed) string {
	var names []string
	for _, v := range variables {
		for _, s := range v.follow {
			if !slices.Contains(names, s.pointer) {
				names = append(names, s.pointer)
			}
		}
	}
	return strings.Join(names, ", ")
}

func unwatchable(name, why string) error {
	return &nameError{name, fmt.Errorf("%s cannot be watched: %s (SAMPLE(%s, 10ms) reads it)", name, why, Stream)}
}
