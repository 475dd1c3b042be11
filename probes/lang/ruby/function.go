package ruby

import (
	"encoding/binary"

	"endoscope/probes/lang/interpreter"
)

// Objects begin with their flags: the type of the object, and of an internal one its kind
// (internal/imemo.h).
const (
	typeMask   = 0x1f
	isString   = 0x05 // T_STRING
	isArray    = 0x07 // T_ARRAY
	isInternal = 0x1a // T_IMEMO

	kindShift  = 12
	kindMask   = 0xf
	kindScope  = 1 // imemo_cref
	kindCBlock = 4 // imemo_ifunc
	kindMethod = 6 // imemo_ment
	kindCode   = 7 // imemo_iseq
)

// Offsets in methods and instruction sequences that all known versions have.
const (
	methodDefinition = 16 // rb_method_entry_t.def
	originalID       = 32 // rb_method_definition_t.original_id

	codeBody = 16 // rb_iseq_t.body
	// Of rb_iseq_constant_body:
	bodySize         = 4  // iseq_size
	bodyInstructions = 8  // iseq_encoded
	bodyPath         = 64 // location.pathobj
	bodyLabel        = 80 // location.label
	// From insns_info.body:
	linesCount = 16 // insns_info.size
	linesIndex = 24 // insns_info.succ_index_table
	bodyRead   = 152
)

// withoutName is the function of a method in C whose name is not found.
const withoutName = "<cfunc>"

// Function reads an instruction sequence, or the entry of a method in C. Blocks in C have no name
// in a stack of Ruby.
func (l *layout) Function(m interpreter.Memory, c interpreter.Call) (f interpreter.Frame, ok bool) {
	flags, err := m.Word(c.Code)
	if err != nil || flags&typeMask != isInternal {
		return f, false
	}
	switch flags >> kindShift & kindMask {
	case kindCode:
		return l.sequence(m, c)
	case kindMethod:
		return l.method(m, c)
	case kindCBlock, kindScope:
		return f, true
	}
	return f, false
}

// sequence reads an instruction sequence.
func (l *layout) sequence(m interpreter.Memory, c interpreter.Call) (f interpreter.Frame, ok bool) {
	body, err := m.Word(c.Code + codeBody)
	if err != nil {
		return f, false
	}
	var b [bodyRead]byte
	if m.Read(body, b[:]) != nil {
		return f, false
	}
	word := func(at uint64) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	if f.Function, ok = l.textAt(m, word(bodyLabel)); !ok {
		return f, false
	}
	if f.File, ok = l.pathAt(m, word(bodyPath)); !ok {
		return f, false
	}
	start, size := word(bodyInstructions), uint64(binary.LittleEndian.Uint32(b[bodySize:]))
	at := (c.Place - start) / 8
	switch {
	case c.Place == 0 || c.Place == start: // no instruction of it has been executed: a thread's outermost frame is such
		return interpreter.Frame{}, true
	case c.Place < start || at > size || c.Place%8 != 0:
		f.Misplaced = true
		return f, true
	}
	at-- // the place is that of the next instruction
	f.Line = l.line(m, word(l.lines), word(l.lines+linesIndex), binary.LittleEndian.Uint32(b[l.lines+linesCount:]), at)
	return f, true
}

// method reads the entry of a method in C.
func (l *layout) method(m interpreter.Memory, c interpreter.Call) (f interpreter.Frame, ok bool) {
	definition, err := m.Word(c.Code + methodDefinition)
	if err != nil {
		return f, false
	}
	id, err := m.Word(definition + originalID)
	if err != nil {
		return f, false
	}
	f.Whole = true
	if f.Function, ok = l.symbol(m, id); !ok {
		f.Function = withoutName
	}
	return f, true
}

// Tables of symbols (symbol.c).
const (
	symbolsNames = 16  // rb_symbols_t.ids: an array of arrays
	perArray     = 512 // ID_ENTRY_UNIT
	perSymbol    = 2   // ID_ENTRY_SIZE: the name comes first
	scopeShift   = 4   // RUBY_ID_SCOPE_SHIFT
)

// symbol reads the name of an ID.
func (l *layout) symbol(m interpreter.Memory, id uint64) (string, bool) {
	if l.symbols == 0 {
		return "", false
	}
	if id > l.operators {
		id >>= scopeShift
	}
	names, err := m.Word(l.symbols + m.Bias + symbolsNames)
	if err != nil {
		return "", false
	}
	part, ok := l.element(m, names, id/perArray)
	if !ok {
		return "", false
	}
	text, ok := l.element(m, part, id%perArray*perSymbol)
	if !ok {
		return "", false
	}
	return l.textAt(m, text)
}

// Flags and offsets of strings and arrays (RString, RArray).
const (
	notEmbedded = 0x2000 // of a string: its text is elsewhere
	embedded    = 0x2000 // of an array: its elements are not elsewhere

	textLength   = 16
	textElse     = 24
	textHere     = 24 // behind its length; 16 if the flags have that
	lengthMask   = 0x1f
	lengthShift  = 14
	elementsHere = 16
	elementsLen  = 16
	elementsElse = 32

	arrayLengthShift = 15
)

// element reads an element of an array.
func (l *layout) element(m interpreter.Memory, array, i uint64) (uint64, bool) {
	var b [elementsElse + 8]byte
	if array == 0 || m.Read(array, b[:]) != nil {
		return 0, false
	}
	flags := binary.LittleEndian.Uint64(b[:])
	at := array + elementsHere
	switch {
	case flags&typeMask != isArray:
		return 0, false
	case flags&embedded == 0:
		at = binary.LittleEndian.Uint64(b[elementsElse:])
		if i >= binary.LittleEndian.Uint64(b[elementsLen:]) {
			return 0, false
		}
	case i >= l.embeddedLength(flags):
		return 0, false
	}
	one, err := m.Word(at + i*8)
	return one, err == nil
}

// embeddedLength returns how many elements an array with these flags may have in itself.
func (l *layout) embeddedLength(flags uint64) uint64 {
	if l.flagLengths {
		return flags >> arrayLengthShift & 3
	}
	return flags >> arrayLengthShift & 0x7f
}

// textAt reads a string.
func (l *layout) textAt(m interpreter.Memory, addr uint64) (string, bool) {
	var b [textElse + 8]byte
	if addr == 0 || m.Read(addr, b[:]) != nil {
		return "", false
	}
	flags, length := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[textLength:])
	switch {
	case flags&typeMask != isString:
		return "", false
	case flags&notEmbedded != 0:
		return m.Name(binary.LittleEndian.Uint64(b[textElse:]), length)
	case l.flagLengths:
		return m.Name(addr+textLength, flags>>lengthShift&lengthMask)
	}
	return m.Name(addr+textHere, length)
}

// pathAt reads the path of a file: a string, or an array of the path as it was given and the
// absolute one.
func (l *layout) pathAt(m interpreter.Memory, addr uint64) (string, bool) {
	if path, ok := l.textAt(m, addr); ok {
		return path, true
	}
	given, ok := l.element(m, addr, 0)
	if !ok {
		return "", false
	}
	return l.textAt(m, given)
}
