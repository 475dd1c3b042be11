package python

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf16"

	"endoscope/probes/lang/interpreter"
)

// Language is Python, as CPython executes it.
var Language = interpreter.Language{
	Name:          name,
	IsInterpreter: IsInterpreter,
	ReadLayout: func(file io.ReaderAt, path string) (interpreter.Layout, error) {
		l, err := ReadLayout(file, path)
		if err != nil {
			return nil, err
		}
		return l, nil
	},
	IsStandard: isStandard,
	Loop:       []string{"_PyEval_EvalFrameDefault", "Py_RunMain"}, // the second if the first has no symbol
}

// isStandard reports whether a file belongs to Python's library.
func isStandard(file string) bool {
	if strings.HasPrefix(file, "<frozen ") {
		return true
	}
	i := strings.Index(file, "/lib/python3")
	return i >= 0 && !strings.Contains(file[i:], "/site-packages/") && !strings.Contains(file[i:], "/dist-packages/")
}

// tidInPthread is the offset of the thread's number in glibc's struct pthread,
// which pthread_self points to (x86-64, since 2.4).
const tidInPthread = 0x2d0

// Threads returns the thread states of all interpreters.
func (l *Layout) Threads(m interpreter.Memory) map[int]interpreter.Thread {
	threads := map[int]interpreter.Thread{}
	interp, err := m.Word(l.runtime + m.Bias + l.interpreters)
	for interpreters := 0; err == nil && interp != 0 && interpreters < interpreter.MaxThreads; interpreters++ {
		var t uint64
		for t, err = m.Word(interp + l.threads); err == nil && t != 0 && len(threads) < interpreter.MaxThreads; t, err = m.Word(t + l.nextThread) {
			id, err := m.Word(t + l.idAt())
			if err != nil {
				return threads
			}
			tid := id
			if l.nativeID == 0 {
				tid, err = m.Word(id + tidInPthread)
			}
			if err == nil {
				threads[int(uint32(tid))] = interpreter.Thread{State: t, ID: id}
			}
		}
		interp, err = m.Word(interp + l.nextInterp)
	}
	return threads
}

// AwaitsLock reports whether a thread waits for the interpreter's lock, which is a condition
// variable; all other locks of Python are semaphores (Python/thread_pthread.h).
func (l *Layout) AwaitsLock(_ interpreter.Memory, _ interpreter.Thread, w interpreter.Wait) bool {
	return IsInterpreter(w.Timed)
}

// Function reads the names of a code object.
func (l *Layout) Function(m interpreter.Memory, c interpreter.Call) (f interpreter.Frame, ok bool) {
	const objectType = 8 // PyObject.ob_type
	if class, err := m.Word(c.Code + objectType); err != nil || l.codeType != 0 && class != l.codeType+m.Bias {
		return f, false
	}
	name, err := m.Word(c.Code + l.name)
	if err != nil {
		return f, false
	}
	file, err := m.Word(c.Code + l.filename)
	if err != nil {
		return f, false
	}
	f.Whole = true
	if f.Function, ok = l.textAt(m, name); !ok {
		return f, false
	}
	f.File, ok = l.textAt(m, file)
	return f, ok
}

// textAt reads a compact string (Include/cpython/unicodeobject.h).
func (l *Layout) textAt(m interpreter.Memory, addr uint64) (string, bool) {
	const length, state = 16, 32
	var head [40]byte
	if addr == 0 || m.Read(addr, head[:]) != nil {
		return "", false
	}
	n := binary.LittleEndian.Uint64(head[length:])
	if n == 0 || n > 1<<20 {
		return "", false
	}
	n = min(n, interpreter.MaxName)
	flags := binary.LittleEndian.Uint32(head[state:])
	if l.text == 40 { // 3.12 and later keep 8 more bits before these since strings can be immortal
		flags &= 0xff
	}
	kind, compact, ascii := flags>>2&7, flags>>5&1, flags>>6&1
	if kind != 1 && kind != 2 && kind != 4 || compact == 0 {
		return "", false
	}
	at := addr + l.wideText
	if ascii != 0 {
		at = addr + l.text
	}
	b := make([]byte, n*uint64(kind))
	if m.Read(at, b) != nil {
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
