package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
	"unicode/utf16"

	"endoscope/probes/process"
)

// Frame is a call of a Python function.
type Frame struct {
	Function string // Class.method
	File     string
}

// Process is a running Python program. It is used by one goroutine at a time.
type Process struct {
	pid    int
	layout *Layout
	bias   uint64

	threads map[int]Thread // by tid
	listed  time.Time
	codes   map[uint64]Frame
	cleared time.Time
}

// Thread is a thread that executes Python.
type Thread struct {
	State uint64 // address of its PyThreadState
	ID    uint64 // its identity there (Layout.Frames): another thread's state may be at the address later
}

// MaxFrames is how many frames of a thread are read (MAX_CODES of stack.bpf.c).
const MaxFrames = 512

// Limits on the values accepted from a program.
const (
	maxThreads = 1 << 16
	maxName    = 300
	// forget is how long names of code objects are cached: another object may
	// be at the address later.
	forget = 10 * time.Second
	// relist is the minimum interval between listings of threads because one is
	// missing.
	relist = 50 * time.Millisecond
)

// Open prepares reading a program whose interpreter is loaded with an offset
// (bias) from the addresses in its file.
func Open(pid int, l *Layout, bias uint64) *Process {
	return &Process{pid: pid, layout: l, bias: bias, codes: map[uint64]Frame{}}
}

// Version returns the version of the interpreter.
func (p *Process) Version() string { return p.layout.Version }

// Layout returns where the interpreter keeps its frames.
func (p *Process) Layout() *Layout { return p.layout }

var errMemory = errors.New("memory cannot be read")

// read reads memory of the process, all or nothing.
func (p *Process) read(addr uint64, b []byte) error {
	if process.ReadMemory(p.pid, b, addr) != len(b) {
		return errMemory
	}
	return nil
}

func (p *Process) word(addr uint64) (uint64, error) {
	var b [8]byte
	err := p.read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// tidInPthread is the offset of the thread's number in glibc's struct pthread,
// which pthread_self points to (x86-64, since 2.4).
const tidInPthread = 0x2d0

// list finds the thread states of all interpreters.
func (p *Process) list() {
	l := p.layout
	p.threads, p.listed = map[int]Thread{}, time.Now()
	interp, err := p.word(l.runtime + p.bias + l.interpreters)
	for interpreters := 0; err == nil && interp != 0 && interpreters < maxThreads; interpreters++ {
		var t uint64
		for t, err = p.word(interp + l.threads); err == nil && t != 0 && len(p.threads) < maxThreads; t, err = p.word(t + l.nextThread) {
			id, err := p.word(t + l.idAt())
			if err != nil {
				return
			}
			tid := id
			if l.nativeID == 0 {
				tid, err = p.word(id + tidInPthread)
			}
			if err == nil {
				p.threads[int(uint32(tid))] = Thread{State: t, ID: id}
			}
		}
		interp, err = p.word(interp + l.nextInterp)
	}
}

// Thread returns a thread of the program; false if it runs no Python.
func (p *Process) Thread(tid int) (Thread, bool) {
	t, ok := p.threads[tid]
	if !ok && time.Since(p.listed) >= relist {
		p.list()
		t, ok = p.threads[tid]
	}
	return t, ok
}

// Forget drops what is known about a thread.
func (p *Process) Forget(tid int) { delete(p.threads, tid) }

// Codes appends the code objects of the functions that a thread executes, innermost
// first. They belong together if the thread does not run meanwhile. The result is
// false if not all can be read.
func (p *Process) Codes(t Thread, codes []uint64) ([]uint64, bool) {
	l := p.layout
	if id, err := p.word(t.State + l.idAt()); err != nil || id != t.ID {
		return codes, false
	}
	frame, err := p.word(t.State + l.frame)
	if err == nil && l.inCFrame && frame != 0 {
		frame, err = p.word(frame + l.cframe)
	}
	if err != nil {
		return codes, false
	}
	var b [128]byte
	for n := 0; frame != 0 && n < MaxFrames; n++ {
		if p.read(frame, b[:l.frameSize]) != nil {
			return codes, false
		}
		if l.owner == 0 || b[l.owner] != ownedByC {
			if code := binary.LittleEndian.Uint64(b[l.code:]); code != 0 {
				codes = append(codes, code)
			}
		}
		frame = binary.LittleEndian.Uint64(b[l.previous:])
	}
	return codes, frame == 0
}

// Frames appends the functions of code objects. The result is false if one of them
// cannot be read, or is none.
func (p *Process) Frames(codes []uint64, frames []Frame) ([]Frame, bool) {
	if now := time.Now(); now.Sub(p.cleared) > forget {
		clear(p.codes)
		p.cleared = now
	}
	for _, code := range codes {
		f, ok := p.codes[code]
		if !ok {
			if f, ok = p.code(code); !ok {
				return frames, false
			}
			p.codes[code] = f
		}
		frames = append(frames, f)
	}
	return frames, true
}

// code reads the names of a code object.
func (p *Process) code(addr uint64) (f Frame, ok bool) {
	const objectType = 8 // PyObject.ob_type
	if class, err := p.word(addr + objectType); err != nil || p.layout.codeType != 0 && class != p.layout.codeType+p.bias {
		return f, false
	}
	name, err := p.word(addr + p.layout.name)
	if err != nil {
		return f, false
	}
	file, err := p.word(addr + p.layout.filename)
	if err != nil {
		return f, false
	}
	if f.Function, ok = p.text(name); !ok {
		return f, false
	}
	f.File, ok = p.text(file)
	return f, ok
}

// text reads a compact string (Include/cpython/unicodeobject.h).
func (p *Process) text(addr uint64) (string, bool) {
	const length, state = 16, 32
	var head [40]byte
	if addr == 0 || p.read(addr, head[:]) != nil {
		return "", false
	}
	n := binary.LittleEndian.Uint64(head[length:])
	if n == 0 || n > 1<<20 {
		return "", false
	}
	n = min(n, maxName)
	flags := binary.LittleEndian.Uint32(head[state:])
	if p.layout.text == 40 { // 3.12 and later keep 8 more bits before these since strings can be immortal
		flags &= 0xff
	}
	kind, compact, ascii := flags>>2&7, flags>>5&1, flags>>6&1
	if kind != 1 && kind != 2 && kind != 4 || compact == 0 {
		return "", false
	}
	at := addr + p.layout.wideText
	if ascii != 0 {
		at = addr + p.layout.text
	}
	b := make([]byte, n*uint64(kind))
	if p.read(at, b) != nil {
		return "", false
	}
	switch kind {
	case 1:
		if ascii != 0 {
			return string(b), bytes.IndexByte(b, 0) < 0
		}
		runes := make([]rune, n) // Latin 1
		for i, c := range b {
			runes[i] = rune(c)
		}
		return string(runes), true
	case 2:
		units := make([]uint16, n)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(b[2*i:])
		}
		return string(utf16.Decode(units)), true
	}
	runes := make([]rune, n)
	for i := range runes {
		runes[i] = rune(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return string(runes), true
}
