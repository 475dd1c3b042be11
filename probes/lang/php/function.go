package php

import (
	"encoding/binary"

	"endoscope/probes/lang/interpreter"
)

// Frames returns where the executor has the calls. It has no identity of a thread: what
// stands for it is the table of functions, which remains while the engine runs.
func (l *layout) Frames() interpreter.Frames {
	const nowhere = interpreter.Nowhere
	return interpreter.Frames{ID: functionTable, Frame: currentCall, Inner: nowhere, Code: callFunction, Previous: callPrevious, Place: callPlace,
		Owner: nowhere, Method: nowhere, Stack: nowhere}
}

// Types of values, of which strings and arrays have theirs in the last bits of a number
// (zend_types.h).
const (
	typeAt   = 4
	typeMask = 0xf
	isString = 6
	isArray  = 7
)

// Threads returns the main thread, which executes the program, if the engine runs.
func (l *layout) Threads(m interpreter.Memory) map[int]interpreter.Thread {
	globals := l.globals + m.Bias
	table, err := m.Word(globals + functionTable)
	if err != nil || table == 0 {
		return nil
	}
	if kind, err := m.Half(table + typeAt); err != nil || kind&typeMask != isArray {
		return nil
	}
	return map[int]interpreter.Thread{m.PID: {State: globals, ID: table}}
}

// AwaitsLock is false: the interpreter has no lock.
func (l *layout) AwaitsLock(interpreter.Memory, interpreter.Thread, interpreter.Wait) bool {
	return false
}

// Kinds of functions (zend_function.type, zend_compile.h), and flags.
const (
	kindInternal = 1 // in C
	kindUser     = 2
	kindEval     = 4 // text that eval executes

	flagTrampoline = 1 << 18 // ZEND_ACC_CALL_VIA_TRAMPOLINE
	flagClosure    = 1 << 22 // ZEND_ACC_CLOSURE
)

// Names of code that belongs to no function.
const (
	mainCode = "{main}"
	evalCode = "{eval}"
)

// Function reads a function of PHP (zend_function).
func (l *layout) Function(m interpreter.Memory, c interpreter.Call) (f interpreter.Frame, ok bool) {
	var b [176]byte
	if m.Read(c.Code, b[:l.filename+8]) != nil {
		// A function of the interpreter may be shorter.
		if m.Read(c.Code, b[:functionScope+8]) != nil || b[0] != kindInternal {
			return f, false
		}
	}
	word := func(at uint64) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	kind, text := b[0], word(functionName)
	switch {
	case text != 0:
		f.Function, ok = textAt(m, text)
	case kind == kindUser:
		f.Function, ok = mainCode, true
	case kind == kindEval:
		f.Function, ok = evalCode, true
	}
	if !ok {
		return f, false
	}
	if scope := word(functionScope); scope != 0 && text != 0 {
		class, err := m.Word(scope + className)
		if err != nil {
			return f, false
		}
		of, ok := textAt(m, class)
		if !ok {
			return f, false
		}
		f.Function = of + "::" + f.Function
	}
	switch kind {
	case kindInternal:
		// Closures and trampolines are not there for long.
		f.Whole = binary.LittleEndian.Uint32(b[functionFlags:])&(flagClosure|flagTrampoline) == 0
		return f, true
	case kindUser, kindEval:
		if f.File, ok = textAt(m, word(l.filename)); !ok {
			return f, false
		}
		f.Line, ok = line(m, word(l.opcodes), binary.LittleEndian.Uint32(b[l.last:]), c.Place)
		f.Misplaced = !ok && c.Place-(l.globals+m.Bias) >= globalsSize
		return f, true
	}
	return f, false
}

// globalsSize is at least the size of executor_globals, which has the instruction of functions
// that an exception leaves.
const globalsSize = 4096

// line returns the line of an instruction of a function; false if the place is none of its
// instructions, as that of a call that has begun may be.
func line(m interpreter.Memory, instructions uint64, n uint32, place uint64) (int, bool) {
	if place < instructions || (place-instructions)%instructionSize != 0 || (place-instructions)/instructionSize >= uint64(n) {
		return 0, false
	}
	line, err := m.Half(place + instructionLine)
	return int(line), err == nil
}

// textAt reads a string (zend_string). The names of classes without name have more behind a
// zero byte.
func textAt(m interpreter.Memory, addr uint64) (string, bool) {
	var head [stringText]byte
	if addr == 0 || m.Read(addr, head[:]) != nil || binary.LittleEndian.Uint32(head[typeAt:])&typeMask != isString {
		return "", false
	}
	return m.Name(addr+stringText, binary.LittleEndian.Uint64(head[stringLength:]))
}
