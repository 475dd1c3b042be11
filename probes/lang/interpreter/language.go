package interpreter

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Language is a programming language whose programs an interpreter executes.
type Language struct {
	Name string // such as Python
	// IsInterpreter reports whether a file, by its name, is or contains the interpreter.
	IsInterpreter func(path string) bool
	// ReadLayout reads the layout of an interpreter, an executable or a library; path is the
	// name of the file. It returns an *ErrVersion for versions that are not known.
	ReadLayout func(file io.ReaderAt, path string) (Layout, error)
	// IsStandard reports whether a source file belongs to the language's own library.
	IsStandard func(file string) bool
	// Loop are the functions of the interpreter that execute the program. The machine's stack
	// ends at the innermost of them.
	Loop []string
	// InnerLoop: a function without symbol that they call is a part of the loop.
	InnerLoop bool
	// PlaceRegister is the machine's register, as DWARF numbers them, that has the place in
	// the innermost frame while the machine is in the loop; 0: none.
	PlaceRegister int
}

// Layout is where one build of an interpreter keeps its threads and their frames.
type Layout interface {
	// Frames returns where a thread's state leads to its frames.
	Frames() Frames
	// Threads returns the threads that execute the program, by their numbers; what can be
	// read of them.
	Threads(m Memory) map[int]Thread
	// Function returns the function of a frame. It is false if it cannot be read, or if the
	// frame is none. A function without name is left out of stacks.
	Function(m Memory, c Call) (Frame, bool)
	// AwaitsLock reports whether a thread that sleeps waits for the interpreter's lock.
	AwaitsLock(m Memory, t Thread, w Wait) bool
}

// Frames is where a thread's state leads to its frames: offsets in bytes, or Nowhere.
// The innermost frame is at State.Frame, or at Inner of what that points to. Frames are
// linked by Previous, or lie side by side, the innermost first.
type Frames struct {
	ID       uint16 // state: Thread.ID
	Frame    uint16 // state: the innermost frame
	Inner    uint16 // Nowhere: the state has the frame itself
	Code     uint16 // frame: its function, 0: it has none
	Previous uint16 // frame: its caller
	Owner    uint16 // frame: a byte, 3 for a call from C without code
	Place    uint16 // frame: the place in its function
	Method   uint16 // frame without function: points to what has the function methodAt before it
	Stack    uint16 // what has the innermost frame: the memory at whose end the outermost lies, and its length in words
	Size     uint16 // of frames that lie side by side in such memory; 0: they are linked
}

// Nowhere is the offset of what there is not.
const Nowhere = 0xffff

const (
	ownedByC = 3  // OWNED_BY_C of stack.bpf.c
	methodAt = 16 // METHOD_AT
	maxFrame = 72 // FRAME_WORDS
)

// MaxFrames is how many frames of a thread are read (MAX_CODES of stack.bpf.c).
const MaxFrames = 512

// Thread is a thread that executes the program.
type Thread struct {
	State uint64 // address of what the interpreter knows about it
	ID    uint64 // its identity there (Frames.ID): another thread's state may be at the address later
}

// Call is a frame as it was read.
type Call struct {
	Code  uint64 // address of the function
	Place uint64 // in it, 0: not known
}

// Frame is a call of a function of the program.
type Frame struct {
	Function string // Class.method
	File     string // "": a function of the interpreter itself
	Line     int    // 0: not known
	// Whole: the frame is that of all places of the function.
	Whole bool
	// Misplaced: the place is none of the function's. The innermost frame may not have one
	// yet; of any other, the function is not the one that was called.
	Misplaced bool
}

// Wait is how a thread sleeps.
type Wait struct {
	Futex uint64 // address of what it waits for in futex; 0: it is not there
	// Timed is the module that waits for a condition variable for a limited time; "": none.
	Timed string
}

// ErrVersion is returned for unknown versions.
type ErrVersion struct {
	Language string
	Version  string
	Known    string // the versions that are known, as in "1.0 to 2.0 are"
}

func (e *ErrVersion) Error() string {
	return fmt.Sprintf("%s %s is not known: %s", e.Language, e.Version, e.Known)
}

// OpenELF opens a file of an interpreter and calls read with it. A damaged file is an
// error.
func OpenELF(file io.ReaderAt, read func(*elf.File) (Layout, error)) (l Layout, err error) {
	defer func() { // debug/elf may panic on damaged files
		if p := recover(); p != nil {
			l, err = nil, fmt.Errorf("damaged file: %v", p)
		}
	}()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	return read(f)
}

// Symbols returns those of the named symbols that a file defines.
func Symbols(f *elf.File, names ...string) map[string]elf.Symbol {
	found := map[string]elf.Symbol{}
	for _, table := range []func() ([]elf.Symbol, error){f.DynamicSymbols, f.Symbols} {
		symbols, err := table()
		if err != nil {
			continue
		}
		for _, s := range symbols {
			for _, name := range names {
				if s.Name == name && s.Section != elf.SHN_UNDEF {
					found[name] = s
				}
			}
		}
		if len(found) == len(names) {
			break
		}
	}
	return found
}

var errNotInFile = errors.New("the address is not in the file")

// ReadFile reads the bytes at an address of a file.
func ReadFile(f *elf.File, addr uint64, b []byte) error {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz && uint64(len(b)) <= p.Filesz-(addr-p.Vaddr) {
			_, err := p.ReadAt(b, int64(addr-p.Vaddr))
			return err
		}
	}
	return errNotInFile
}

// WordInFile reads an 8-byte number at an address of a file.
func WordInFile(f *elf.File, addr uint64) (uint64, error) {
	var b [8]byte
	err := ReadFile(f, addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}
