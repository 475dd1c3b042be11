package unwind

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// The unwind table (.eh_frame) defines which code belongs together and, for
// each instruction, where the return address is. delve's parser is not used: it
// drops the language-specific data and refuses whole tables for one unknown
// letter.

// Table is a parsed .eh_frame.
type Table struct {
	Entries []Entry // FDEs, sorted by start
	// Exceptions: some CIE has a personality routine and language-specific data
	// (augmentation "zPLR"): unwinding may run code of the module, and end
	// there.
	Exceptions bool
}

// Entry (an FDE) covers one contiguous piece of code.
type Entry struct {
	Start, End uint64
	common     *common
	program    []byte
}

// common (a CIE) is the data that entries share.
type common struct {
	codeAlign   uint64
	dataAlign   int64
	returnReg   uint64
	pointers    byte // DW_EH_PE encoding of addresses
	augmented   bool // entries carry augmentation data
	signalFrame bool
	program     []byte
	initial     Row  // row after the initial program
	understood  bool // the initial program was understood
}

// Row locates the caller's frame and the return address.
type Row struct {
	CFAReg    uint64
	CFAOffset int64
	CFAKnown  bool   // register plus offset, not an expression
	RA        int64  // offset of the return address from the CFA
	RAKnown   bool   // saved at a fixed offset
	Until     uint64 // address of the next row
}

// AtEntry reports whether the row is that of a function just called: the return
// address is on top of the stack.
func (r Row) AtEntry() bool {
	return r.CFAKnown && r.CFAReg == RegSP && r.CFAOffset == 8 && r.RAKnown && r.RA == -8
}

var errFrame = errors.New("damaged unwind table")

// maxEntries limits the entries kept of a table.
const maxEntries = 4 << 20

// Parse parses an .eh_frame that is loaded at addr.
func Parse(data []byte, addr uint64) (t *Table, err error) {
	const mean = 40 // bytes of an entry
	t = &Table{Entries: make([]Entry, 0, min(len(data)/mean, maxEntries))}
	commons := map[int]*common{}
	for pos := 0; pos+4 <= len(data); {
		length := uint64(binary.LittleEndian.Uint32(data[pos:]))
		body := pos + 4
		if length == 0 { // a terminator; linked objects may follow it
			pos = body
			continue
		}
		if length == 0xffffffff { // 64-bit format
			if body+8 > len(data) {
				return t, errFrame
			}
			length = binary.LittleEndian.Uint64(data[body:])
			body += 8
		}
		if length < 4 || length > uint64(len(data)-body) {
			return t, errFrame
		}
		end := body + int(length)
		id := binary.LittleEndian.Uint32(data[body:])
		if id == 0 {
			c, exceptions := parseCommon(data[body+4:end], addr+uint64(body)+4)
			commons[pos] = c
			t.Exceptions = t.Exceptions || exceptions
		} else if c := commons[body-int(id)]; c != nil {
			if e, ok := parseEntry(data[body+4:end], addr+uint64(body)+4, c); ok {
				t.Entries = append(t.Entries, e)
			}
		}
		if len(t.Entries) > maxEntries {
			return t, errFrame
		}
		pos = end
	}
	t.Entries = slices.Clip(t.Entries)
	if !slices.IsSortedFunc(t.Entries, byStart) { // false only if a linker did not sort them
		slices.SortFunc(t.Entries, byStart)
	}
	return t, nil
}

func byStart(a, b Entry) int { return cmp.Compare(a.Start, b.Start) }

// parseCommon parses a CIE after its id; nil if it is not understood, and its
// entries are skipped.
func parseCommon(b []byte, addr uint64) (c *common, exceptions bool) {
	r, last := leb128.NewReader(b), addr+uint64(len(b))
	version := r.Byte()
	augmentation := r.String()
	c = &common{codeAlign: r.Uleb(), dataAlign: r.Sleb()}
	if version == 1 {
		c.returnReg = uint64(r.Byte())
	} else {
		c.returnReg = r.Uleb()
	}
	if augmentation == "" {
		c.begin(r.Rest())
		return c, false
	}
	if augmentation[0] != 'z' {
		return nil, false
	}
	c.augmented = true
	n := r.Uleb()
	if n > uint64(r.Len()) {
		return nil, false
	}
	after := r.Rest()[n:]
	var personality, language bool
	for _, letter := range augmentation[1:] {
		switch letter {
		case 'L':
			r.Byte()
			language = true
		case 'P':
			pointer(&r, last, r.Byte()&^peIndirect)
			personality = true
		case 'R':
			c.pointers = r.Byte()
		case 'S':
			c.signalFrame = true
		case 'B': // return addresses signed: not on x86
		default:
			return nil, personality && language
		}
	}
	c.begin(after)
	if r.Failed() {
		return nil, personality && language
	}
	return c, personality && language
}

// begin sets the initial program of the entries.
func (c *common) begin(program []byte) {
	c.program = program
	c.understood = c.initial.run(program, c, 0, 0)
}

// parseEntry parses an FDE after its CIE pointer.
func parseEntry(b []byte, addr uint64, c *common) (Entry, bool) {
	r, last := leb128.NewReader(b), addr+uint64(len(b))
	start := pointer(&r, last, c.pointers)
	size := pointer(&r, last, c.pointers&0x0f) // the length is not relative
	if c.augmented {
		r.Skip(r.Uleb()) // the pointer to language-specific data
	}
	if r.Failed() || size == 0 || start+size < start {
		return Entry{}, false
	}
	return Entry{start, start + size, c, r.Rest()}, true
}

// Find returns the entry that covers pc, or nil.
func (t *Table) Find(pc uint64) *Entry {
	i, found := slices.BinarySearchFunc(t.Entries, pc, func(e Entry, pc uint64) int { return cmp.Compare(e.Start, pc) })
	if !found {
		i--
	}
	if i < 0 || !t.Entries[i].Contains(pc) {
		return nil
	}
	return &t.Entries[i]
}

// Next returns the first entry that begins at or after pc, or nil.
func (t *Table) Next(pc uint64) *Entry {
	i, _ := slices.BinarySearchFunc(t.Entries, pc, func(e Entry, pc uint64) int { return cmp.Compare(e.Start, pc) })
	if i == len(t.Entries) {
		return nil
	}
	return &t.Entries[i]
}

// Contains reports whether the entry covers an address.
func (e *Entry) Contains(addr uint64) bool { return e.Start <= addr && addr < e.End }

// IsSignal reports whether the code returns from a signal, in a frame made by
// the kernel.
func (e *Entry) IsSignal() bool { return e.common.signalFrame }

// Row returns the unwind row at pc; ok is false if the program is not
// understood.
func (e *Entry) Row(pc uint64) (row Row, ok bool) {
	row = e.common.initial
	if !e.common.understood {
		return row, false
	}
	return row, row.run(e.program, e.common, e.Start, pc)
}

// run executes a call frame program until the row for pc is complete. It tracks
// the CFA and the return address and ignores other registers.
func (row *Row) run(program []byte, c *common, loc, pc uint64) bool {
	w := walkFrame(program, c, loc, pc, c.returnReg)
	var room [2]Row
	saved := room[:0]
	for w.next() {
		switch w.do {
		case setCFA:
			row.CFAReg, row.CFAOffset, row.CFAKnown = w.reg, w.offset, true
		case setCFARegister:
			row.CFAReg = w.reg
		case setCFAOffset:
			row.CFAOffset = w.offset
		case setCFAExpression:
			row.CFAKnown = false
		case setRegister:
			if w.reg == c.returnReg {
				if row.RA, row.RAKnown = 0, w.how == AtOffset; row.RAKnown {
					row.RA = w.offset
				}
			}
		case restoreRegister:
			if w.reg == c.returnReg { // no compiler restores the return address
				row.RA, row.RAKnown = 0, false
			}
		case rememberState:
			if len(saved) > maxRemembered {
				return false
			}
			saved = append(saved, *row)
		case restoreState:
			if len(saved) == 0 {
				return false
			}
			*row, saved = saved[len(saved)-1], saved[:len(saved)-1]
		}
	}
	row.Until = w.loc
	return w.complete()
}
