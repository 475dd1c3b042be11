package ruby

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"endoscope/probes/lang/interpreter"
)

const name = "Ruby"

// Language is Ruby, as MRI executes it.
var Language = interpreter.Language{
	Name:          name,
	IsInterpreter: IsInterpreter,
	ReadLayout:    ReadLayout,
	IsStandard:    isStandard,
	Loop:          []string{"vm_exec_core", "rb_vm_exec", "vm_exec"},
	InnerLoop:     true, // vm_exec_core has no symbol in a stripped library
}

// isStandard reports whether a file belongs to Ruby's library; gems do not.
func isStandard(file string) bool {
	if strings.HasPrefix(file, "<internal:") {
		return true
	}
	i := strings.Index(file, "/lib/ruby/")
	return i >= 0 && !strings.Contains(file[i:], "/gems/")
}

// layout is where one build of MRI keeps its threads, frames and names.
type layout struct {
	vm      uint64 // address of ruby_current_vm_ptr in the file
	symbols uint64 // of ruby_global_symbols; 0: not found
	offsets
}

// offsets are those in the interpreter's structures that differ between versions, as the
// compiler gives them for the sources of each.
type offsets struct {
	threads     uint64 // rb_ractor_t.threads.set
	nextRactor  uint64 // rb_ractor_t.vmlr_node
	context     uint64 // rb_thread_t.ec
	thread      uint64 // rb_execution_context_t.thread_ptr
	native      uint64 // rb_thread_t.nt; before 3.2: thread_id, pthread_self
	tid         uint64 // struct rb_native_thread.tid; before 3.2: rb_thread_t.tid; 0: that of glibc's struct pthread
	condition   uint64 // struct rb_native_thread.cond; before 3.2: rb_thread_t.native_thread_data.cond
	unblock     uint64 // rb_thread_t.unblock.func
	separate    bool   // there is a struct rb_native_thread
	frameSize   uint64 // sizeof(rb_control_frame_t)
	lines       uint64 // rb_iseq_constant_body.insns_info.body
	lineSize    uint64 // sizeof(struct iseq_insn_info_entry)
	flagLengths bool   // the length of a short string is in its flags
	operators   uint64 // tLAST_OP_ID
}

// Offsets that all known versions have.
const (
	ractors = 8 // rb_vm_t.ractor.set

	threadNode   = 0  // rb_thread_t.lt_node
	threadRactor = 24 // rb_thread_t.ractor
	threadVM     = 32 // rb_thread_t.vm

	contextStack = 0  // rb_execution_context_t.vm_stack, then vm_stack_size
	contextFrame = 16 // rb_execution_context_t.cfp

	framePlace       = 0  // rb_control_frame_t.pc
	frameCode        = 16 // rb_control_frame_t.iseq
	frameEnvironment = 32 // rb_control_frame_t.ep, which has the method entry at VM_ENV_DATA_INDEX_ME_CREF (-2)
)

const known = "3.0 to 3.3 are, if they have symbols"

var layouts = map[string]offsets{
	"3.0": {threads: 304, nextRactor: 568, context: 40, thread: 56, native: 80, condition: 112, unblock: 240,
		frameSize: 56, lines: 120, lineSize: 8, flagLengths: true, operators: 168},
	"3.1": {threads: 304, nextRactor: 568, context: 40, thread: 48, native: 80, tid: 88, condition: 120, unblock: 248,
		frameSize: 64, lines: 120, lineSize: 12, flagLengths: true, operators: 169},
	"3.2": {threads: 304, nextRactor: 568, context: 48, thread: 48, native: 40, tid: 16, condition: 32, unblock: 200, separate: true,
		frameSize: 64, lines: 112, lineSize: 12, operators: 169},
	"3.3": {threads: 256, nextRactor: 432, context: 48, thread: 48, native: 40, tid: 24, condition: 40, unblock: 328, separate: true,
		frameSize: 56, lines: 112, lineSize: 12, operators: 169},
}

// ErrNone is returned for files that are no Ruby.
var ErrNone = fmt.Errorf("it is no Ruby")

var interpreterName = regexp.MustCompile(`^(ruby[\d.]*|libruby(-[\d.]+)?\.so[\d.]*)$`)

// IsInterpreter reports whether a file, by its name, is MRI.
func IsInterpreter(path string) bool { return interpreterName.MatchString(filepath.Base(path)) }

// ReadLayout reads the layout of an interpreter, an executable or a library.
func ReadLayout(file io.ReaderAt, _ string) (interpreter.Layout, error) {
	return interpreter.OpenELF(file, readLayout)
}

var versionNumber = regexp.MustCompile(`^\d+\.\d+`)

func readLayout(f *elf.File) (interpreter.Layout, error) {
	symbols := interpreter.Symbols(f, "ruby_version", "ruby_current_vm_ptr", "ruby_global_symbols", allSymbols)
	if symbols["ruby_version"].Value == 0 {
		return nil, ErrNone
	}
	var text [4]byte // of 3.1.2
	if err := interpreter.ReadFile(f, symbols["ruby_version"].Value, text[:]); err != nil {
		return nil, err
	}
	version := string(versionNumber.Find(text[:]))
	offsets, ok := layouts[version]
	if !ok {
		return nil, errVersion(strings.TrimRight(string(text[:]), ".\x00"))
	}
	l := &layout{vm: symbols["ruby_current_vm_ptr"].Value, symbols: symbols["ruby_global_symbols"].Value, offsets: offsets}
	if l.vm == 0 { // 3.3 and later do not export it
		return nil, errVersion(version + " without symbols")
	}
	if l.symbols == 0 {
		l.symbols = symbolsOf(f, symbols[allSymbols])
	}
	return l, nil
}

func errVersion(version string) error {
	return &interpreter.ErrVersion{Language: name, Version: version, Known: known}
}

// allSymbols is an exported function that reads ruby_global_symbols, which is not exported.
const allSymbols = "rb_sym_all_symbols"

var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// symbolsOf finds ruby_global_symbols in the code of a function that loads its second word, 0 if
// it is not there. In the file it has the number of the last symbol that the parser
// knows, and zeros.
func symbolsOf(f *elf.File, function elf.Symbol) uint64 {
	const second, maxCode, maxSymbol = 8, 1 << 10, 1 << 10
	code := make([]byte, min(function.Size, maxCode))
	if interpreter.ReadFile(f, function.Value, code) != nil {
		return 0
	}
	at := 0
	if bytes.HasPrefix(code, endbr64) { // which the decoder does not know
		at = len(endbr64)
	}
	for at < len(code) {
		in, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			return 0
		}
		at += in.Len
		m, ok := in.Args[1].(x86asm.Mem)
		if in.Op != x86asm.MOV || !ok || m.Base != x86asm.RIP {
			continue
		}
		addr := function.Value + uint64(at) + uint64(m.Disp) - second
		last, err := interpreter.WordInFile(f, addr)
		next, nextErr := interpreter.WordInFile(f, addr+second)
		if err == nil && nextErr == nil && last > 0 && last < maxSymbol && next == 0 {
			return addr
		}
	}
	return 0
}
