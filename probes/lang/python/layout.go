package python

import (
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"

	"endoscope/probes/lang/interpreter"
)

// Layout is where one build of CPython keeps its threads and their frames.
type Layout struct {
	Version  string // such as 3.11
	runtime  uint64 // address of _PyRuntime in the file
	codeType uint64 // of PyCode_Type; 0: not exported
	offsets
}

// Frames returns where the layout has the frames of a thread.
func (l *Layout) Frames() interpreter.Frames {
	const nowhere = interpreter.Nowhere
	f := interpreter.Frames{ID: uint16(l.idAt()), Frame: uint16(l.frame), Inner: nowhere, Code: uint16(l.code), Previous: uint16(l.previous), Owner: nowhere,
		Place: nowhere, Method: nowhere, Stack: nowhere}
	if l.inCFrame {
		f.Inner = uint16(l.cframe)
	}
	if l.owner != 0 {
		f.Owner = uint16(l.owner)
	}
	return f
}

// idAt is the offset of a thread's identity in its state.
func (o *offsets) idAt() uint64 {
	if o.nativeID != 0 {
		return o.nativeID
	}
	return o.threadID
}

// offsets in the interpreter's structures, from the headers of the named
// version (Include/internal, with Py_BUILD_CORE).
type offsets struct {
	interpreters uint64 // _PyRuntimeState.interpreters.head
	nextInterp   uint64 // PyInterpreterState.next
	threads      uint64 // PyInterpreterState.threads.head
	nextThread   uint64 // PyThreadState.next
	threadID     uint64 // PyThreadState.thread_id: pthread_self
	nativeID     uint64 // PyThreadState.native_thread_id; 0: not present
	frame        uint64 // PyThreadState.current_frame, frame, or cframe
	inCFrame     bool   // frame is the offset of cframe, which contains the frame at:
	cframe       uint64 // _PyCFrame.current_frame
	code         uint64 // frame: its code object
	previous     uint64 // frame: its caller
	owner        uint64 // frame: its owner; 0: not present
	filename     uint64 // PyCodeObject.co_filename
	name         uint64 // PyCodeObject.co_qualname, or co_name
	text         uint64 // offset of the characters of an ASCII string
	wideText     uint64 // offset of those of other strings
}

var layouts = map[int]offsets{
	9: {interpreters: 32, threads: 8, nextThread: 8, threadID: 176, frame: 24, code: 32, previous: 24,
		filename: 104, name: 112, text: 48, wideText: 72},
	10: {interpreters: 32, threads: 8, nextThread: 8, threadID: 176, frame: 24, code: 32, previous: 24,
		filename: 104, name: 112, text: 48, wideText: 72},
	11: {interpreters: 40, threads: 16, nextThread: 8, threadID: 152, nativeID: 160, frame: 56, inCFrame: true, cframe: 8,
		code: 32, previous: 48, owner: 69, filename: 112, name: 128, text: 48, wideText: 72},
	12: {interpreters: 40, threads: 72, nextThread: 8, threadID: 136, nativeID: 144, frame: 56, inCFrame: true, cframe: 0,
		code: 0, previous: 8, owner: 70, filename: 112, name: 128, text: 40, wideText: 56},
	13: {interpreters: 632, nextInterp: 7264, threads: 7344, nextThread: 8, threadID: 152, nativeID: 160, frame: 72,
		code: 0, previous: 8, owner: 70, filename: 112, name: 128, text: 40, wideText: 56},
}

func errVersion(version string) error {
	return &interpreter.ErrVersion{Language: name, Version: version, Known: "3.9 to 3.13 are"}
}

const name = "Python"

// ErrNone is returned for files that are no Python.
var ErrNone = fmt.Errorf("it is no CPython")

var versionInName = regexp.MustCompile(`python3\.(\d+)`)

var interpreterName = regexp.MustCompile(`^(lib)?python3[\d.]*(\.so[\d.]*)?$`)

// IsInterpreter reports whether a file, by its name, is CPython.
func IsInterpreter(path string) bool { return interpreterName.MatchString(filepath.Base(path)) }

// ReturnPlace is the marked place (USDT) that an interpreter which reports calls passes at each
// return.
const ReturnPlace = "python:function__return"

// Hint says in which interpreters functions can be observed.
const Hint = "functions of Python can be observed in CPython 3.9 to 3.11 built --with-dtrace, as Debian's and Fedora's are; later versions have no such places. SELECT stack FROM SAMPLE(stack_sample, 10ms) shows the functions of 3.9 to 3.13"

// ReadLayout reads the layout of an interpreter, an executable or a library;
// path is the name of the file.
func ReadLayout(file io.ReaderAt, path string) (*Layout, error) {
	l, err := interpreter.OpenELF(file, func(f *elf.File) (interpreter.Layout, error) { return readLayout(f, path) })
	if err != nil {
		return nil, err
	}
	return l.(*Layout), nil
}

func readLayout(f *elf.File, path string) (*Layout, error) {
	symbols := interpreter.Symbols(f, "_PyRuntime", "Py_Version", "PyCode_Type")
	runtime := symbols["_PyRuntime"].Value
	if runtime == 0 {
		return nil, ErrNone
	}
	major, minor := 3, -1
	if version := symbols["Py_Version"].Value; version != 0 { // since 3.11: the version number in hexadecimal, 0x030b02f0
		var b [4]byte
		if interpreter.ReadFile(f, version, b[:]) == nil {
			major, minor = int(b[3]), int(b[2])
		}
	} else if m := versionInName.FindStringSubmatch(path); m != nil {
		minor, _ = strconv.Atoi(m[1])
	}
	if minor < 0 {
		return nil, errVersion("of an unknown version")
	}
	offsets, ok := layouts[minor]
	if major != 3 || !ok {
		return nil, errVersion(fmt.Sprintf("%d.%d", major, minor))
	}
	return &Layout{Version: fmt.Sprintf("3.%d", minor), runtime: runtime, codeType: symbols["PyCode_Type"].Value, offsets: offsets}, nil
}
