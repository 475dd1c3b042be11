package interpreter

import (
	"encoding/binary"
	"time"
)

// Process is a running program. It is used by one goroutine at a time.
type Process struct {
	Layout Layout
	memory Memory

	threads map[int]Thread // by tid
	listed  time.Time
	whole   map[uint64]Frame // by code: those of all its places
	placed  map[Call]Frame
	cleared time.Time
}

// Limits on what is kept of a program.
const (
	// forget is how long the names of functions are cached: another function may be at the
	// address later.
	forget = 10 * time.Second
	// maxPlaced is how many places are cached.
	maxPlaced = 1 << 16
	// relist is the minimum interval between listings of threads because one is missing.
	relist = 50 * time.Millisecond
	// MaxThreads is how many threads of a program are listed.
	MaxThreads = 1 << 16
)

// Open prepares reading a program whose interpreter is loaded with an offset (bias) from
// the addresses in its file.
func Open(pid int, l Layout, bias uint64) *Process {
	return &Process{Layout: l, memory: Memory{PID: pid, Bias: bias}, whole: map[uint64]Frame{}, placed: map[Call]Frame{}}
}

// Thread returns a thread of the program; false if it executes none.
func (p *Process) Thread(tid int) (Thread, bool) {
	t, ok := p.threads[tid]
	if !ok && time.Since(p.listed) >= relist {
		p.threads, p.listed = p.Layout.Threads(p.memory), time.Now()
		t, ok = p.threads[tid]
	}
	return t, ok
}

// Forget drops what is known about a thread.
func (p *Process) Forget(tid int) { delete(p.threads, tid) }

// AwaitsLock reports whether a thread that sleeps waits for the interpreter's lock.
func (p *Process) AwaitsLock(t Thread, w Wait) bool { return p.Layout.AwaitsLock(p.memory, t, w) }

// Calls appends the frames of a thread, innermost first. They belong together if the
// thread does not run meanwhile. The result is false if not all can be read.
func (p *Process) Calls(t Thread, calls []Call) ([]Call, bool) {
	l := p.Layout.Frames()
	if id, err := p.memory.Word(t.State + uint64(l.ID)); err != nil || id != t.ID {
		return calls, false
	}
	holder := t.State
	frame, err := p.memory.Word(holder + uint64(l.Frame))
	if err == nil && l.Inner != Nowhere && frame != 0 {
		holder = frame
		frame, err = p.memory.Word(holder + uint64(l.Inner))
	}
	if err != nil {
		return calls, false
	}
	var end uint64
	size := uint64(maxFrame)
	if l.Size != 0 {
		var area [16]byte
		if p.memory.Read(holder+uint64(l.Stack), area[:]) != nil {
			return calls, false
		}
		start := binary.LittleEndian.Uint64(area[:])
		end, size = start+8*binary.LittleEndian.Uint64(area[8:]), uint64(l.Size)
		if frame < start || frame > end || size > maxFrame {
			return calls, false
		}
	}
	more := func() bool { return frame != 0 && (l.Size == 0 || frame < end) }
	var b [maxFrame]byte
	word := func(at uint16) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	for n := 0; more() && n < MaxFrames; n++ {
		if p.memory.Read(frame, b[:size]) != nil {
			return calls, false
		}
		code := word(l.Code)
		if code == 0 && l.Method != Nowhere {
			if code, err = p.memory.Word(word(l.Method) - methodAt); err != nil {
				return calls, false
			}
		}
		if code != 0 && (l.Owner == Nowhere || b[l.Owner] != ownedByC) {
			c := Call{Code: code}
			if l.Place != Nowhere {
				c.Place = word(l.Place)
			}
			calls = append(calls, c)
		}
		if l.Size != 0 {
			frame += size
		} else {
			frame = word(l.Previous)
		}
	}
	return calls, !more()
}

// Functions appends the functions of frames, innermost first, without those that have no
// name. The result is false if one of them cannot be read, or is none.
func (p *Process) Functions(calls []Call, frames []Frame) ([]Frame, bool) {
	if now := time.Now(); now.Sub(p.cleared) > forget || len(p.placed) > maxPlaced {
		clear(p.whole)
		clear(p.placed)
		p.cleared = now
	}
	for i, c := range calls {
		f, ok := p.function(c)
		if !ok || f.Misplaced && i > 0 {
			return frames, false
		}
		if f.Function != "" {
			frames = append(frames, f)
		}
	}
	return frames, true
}

// function returns the function of a frame. It is cached where its place shows that it is
// still the same, or has no place.
func (p *Process) function(c Call) (Frame, bool) {
	if f, ok := p.whole[c.Code]; ok {
		return f, true
	}
	if f, ok := p.placed[c]; ok {
		return f, true
	}
	f, ok := p.Layout.Function(p.memory, c)
	switch {
	case !ok:
	case f.Whole:
		p.whole[c.Code] = f
	case f.Line != 0:
		p.placed[c] = f
	}
	return f, ok
}

// At returns the place of a frame in a register of the machine instead of the one that
// its memory had, if it is one of its function.
func (p *Process) At(c Call, place uint64) Call {
	if f, ok := p.function(Call{c.Code, place}); ok && f.Line != 0 {
		c.Place = place
	}
	return c
}
