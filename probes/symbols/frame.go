package symbols

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

// The unwind table (.eh_frame) says which code belongs together and, for each
// instruction, where the return address lies. delve's parser is not used: it
// drops the language-specific data and refuses whole tables for one unknown
// letter.

// unwindTable is a parsed .eh_frame.
type unwindTable struct {
	entries []unwindEntry // FDEs, sorted by start
	// exceptions tells that a CIE has a personality routine and
	// language-specific data (augmentation "zPLR"): unwinding may run code of
	// the module, and end there.
	exceptions bool
}

// unwindEntry (an FDE) covers one contiguous piece of code.
type unwindEntry struct {
	start, end uint64
	common     *unwindCommon
	program    []byte
}

// unwindCommon (a CIE) is what entries share.
type unwindCommon struct {
	codeAlign   uint64
	dataAlign   int64
	returnReg   uint64
	pointers    byte // DW_EH_PE encoding of addresses
	augmented   bool // entries carry augmentation data
	signalFrame bool
	program     []byte
	initial     unwindRow // to which it leads
	understood  bool      // it does
}

// unwindRow says where the caller's frame and the return address are.
type unwindRow struct {
	cfaReg    uint64
	cfaOffset int64
	cfaKnown  bool   // register plus offset, not an expression
	ra        int64  // offset of the return address from the CFA
	raKnown   bool   // saved at a fixed offset
	until     uint64 // address of the next row
}

// atEntry reports whether the row is that of a function just called: the
// return address is on top of the stack.
func (r unwindRow) atEntry() bool {
	return r.cfaKnown && r.cfaReg == RegSP && r.cfaOffset == 8 && r.raKnown && r.ra == -8
}

var errFrame = errors.New("damaged unwind table")

// maxEntries bounds how many entries of a table are kept.
const maxEntries = 4 << 20

// parseUnwind parses an .eh_frame that is loaded at addr.
func parseUnwind(data []byte, addr uint64) (t *unwindTable, err error) {
	const mean = 40 // bytes of an entry
	t = &unwindTable{entries: make([]unwindEntry, 0, min(len(data)/mean, maxEntries))}
	commons := map[int]*unwindCommon{}
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
			t.exceptions = t.exceptions || exceptions
		} else if c := commons[body-int(id)]; c != nil {
			if e, ok := parseEntry(data[body+4:end], addr+uint64(body)+4, c); ok {
				t.entries = append(t.entries, e)
			}
		}
		if len(t.entries) > maxEntries {
			return t, errFrame
		}
		pos = end
	}
	t.entries = slices.Clip(t.entries)
	if !slices.IsSortedFunc(t.entries, byStart) { // linkers sort them
		slices.SortFunc(t.entries, byStart)
	}
	return t, nil
}

func byStart(a, b unwindEntry) int { return cmp.Compare(a.start, b.start) }

// parseCommon parses a CIE after its id; nil if it is not understood, and its
// entries then are unknown.
func parseCommon(b []byte, addr uint64) (c *unwindCommon, exceptions bool) {
	r, last := leb128.NewReader(b), addr+uint64(len(b))
	version := r.Byte()
	augmentation := r.String()
	c = &unwindCommon{codeAlign: r.Uleb(), dataAlign: r.Sleb()}
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

// begin sets the program with which those of the entries begin.
func (c *unwindCommon) begin(program []byte) {
	c.program = program
	c.understood = c.initial.run(program, c, 0, 0)
}

// parseEntry parses an FDE after its CIE pointer.
func parseEntry(b []byte, addr uint64, c *unwindCommon) (unwindEntry, bool) {
	r, last := leb128.NewReader(b), addr+uint64(len(b))
	start := pointer(&r, last, c.pointers)
	size := pointer(&r, last, c.pointers&0x0f) // a length is relative to nothing
	if c.augmented {
		r.Skip(r.Uleb()) // the pointer to language-specific data
	}
	if r.Failed() || size == 0 || start+size < start {
		return unwindEntry{}, false
	}
	return unwindEntry{start, start + size, c, r.Rest()}, true
}

// find returns the entry that covers pc, or nil.
func (t *unwindTable) find(pc uint64) *unwindEntry {
	i, found := slices.BinarySearchFunc(t.entries, pc, func(e unwindEntry, pc uint64) int { return cmp.Compare(e.start, pc) })
	if !found {
		i--
	}
	if i < 0 || !t.entries[i].contains(pc) {
		return nil
	}
	return &t.entries[i]
}

// next returns the first entry that begins at or behind pc, or nil.
func (t *unwindTable) next(pc uint64) *unwindEntry {
	i, _ := slices.BinarySearchFunc(t.entries, pc, func(e unwindEntry, pc uint64) int { return cmp.Compare(e.start, pc) })
	if i == len(t.entries) {
		return nil
	}
	return &t.entries[i]
}

// contains reports whether the entry covers an address.
func (e *unwindEntry) contains(addr uint64) bool { return e.start <= addr && addr < e.end }

// isSignal reports whether the code returns from a signal: the kernel made its frame.
func (e *unwindEntry) isSignal() bool { return e.common.signalFrame }

// row is the unwind row at pc; ok is false if the program is not understood.
func (e *unwindEntry) row(pc uint64) (row unwindRow, ok bool) {
	row = e.common.initial
	if !e.common.understood {
		return row, false
	}
	return row, row.run(e.program, e.common, e.start, pc)
}

// run executes a call frame program until the row for pc is complete. It
// follows the CFA and the return address and passes over the other registers.
func (row *unwindRow) run(program []byte, c *unwindCommon, loc, pc uint64) bool {
	w := walkFrame(program, c, loc, pc, c.returnReg)
	var room [2]unwindRow
	saved := room[:0]
	for w.next() {
		switch w.do {
		case setCFA:
			row.cfaReg, row.cfaOffset, row.cfaKnown = w.reg, w.offset, true
		case setCFARegister:
			row.cfaReg = w.reg
		case setCFAOffset:
			row.cfaOffset = w.offset
		case setCFAExpression:
			row.cfaKnown = false
		case setRegister:
			if w.reg == c.returnReg {
				if row.ra, row.raKnown = 0, w.how == AtOffset; row.raKnown {
					row.ra = w.offset
				}
			}
		case restoreRegister:
			if w.reg == c.returnReg { // no compiler restores the return address
				row.ra, row.raKnown = 0, false
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
	row.until = w.loc
	return w.complete()
}
